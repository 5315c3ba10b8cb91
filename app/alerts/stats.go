package alerts

import (
	"math"
	"slices"
)

// certainty is how sure a decision must be, in standard deviations: one decision in 2000 is wrong where a version is
// exactly at the limit, and nearly none elsewhere.
const certainty = 3.3

// wilson returns the bounds of the share of which k of n were drawn. Without draws nothing is known: 0 and 1.
func wilson(k, n int64) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	const z2 = certainty * certainty
	p, count := float64(k)/float64(n), float64(n)
	mid := (p + z2/(2*count)) / (1 + z2/count)
	half := certainty * math.Sqrt(p*(1-p)/count+z2/(4*count*count)) / (1 + z2/count)
	return max(mid-half, 0), min(mid+half, 1)
}

// ratio estimates by which factor the values of now are larger than those of before: the median of the factors of all
// pairs. least is the lower bound of the factor, from the ranks of the Mann-Whitney test. Neither depends on a
// distribution, and a few outliers change little. Both lists are in order of time: values that depend on those before
// them count for less, by inflation. All values must be above 0, and both lists not empty.
func ratio(before, now []float64) (factor, least float64) {
	pairs := make([]float64, 0, len(before)*len(now))
	for _, b := range before {
		for _, n := range now {
			pairs = append(pairs, n/b)
		}
	}
	slices.Sort(pairs)
	m, n := float64(len(before)), float64(len(now))
	rank := int(m*n/2 - certainty*math.Sqrt(inflation(before, now)*m*n*(m+n+1)/12))
	if rank >= 0 {
		least = pairs[rank]
	}
	return median(pairs), least
}

// inflation returns by how much the variance of a mean is larger than if the values were independent, at least 1. It is
// the method of batch means: of groups of neighbours the means vary as much as if the values were independent, or more.
func inflation(series ...[]float64) float64 {
	const leastGroups = 6
	single, _ := groupVariance(1, series)
	k := 1.0
	for size := 5; single > 0; size *= 2 {
		v, groups := groupVariance(size, series)
		if groups < leastGroups {
			break
		}
		k = max(k, float64(size)*v/single)
	}
	return k
}

// groupVariance returns the variance of the means of groups of logarithms, each around the mean of its series.
func groupVariance(size int, series [][]float64) (variance float64, groups int) {
	sum, free := 0.0, 0
	for _, list := range series {
		var means []float64
		total := 0.0
		for group := range slices.Chunk(list, size) {
			if len(group) < size {
				break
			}
			mean := 0.0
			for _, v := range group {
				mean += math.Log(v) / float64(size)
			}
			means = append(means, mean)
			total += mean
		}
		for _, m := range means {
			d := m - total/float64(len(means))
			sum += d * d
		}
		groups += len(means)
		free += max(len(means)-1, 0)
	}
	if free == 0 {
		return 0, groups
	}
	return sum / float64(free), groups
}

// median returns the middle of sorted values, 0 without values.
func median(sorted []float64) float64 { return quantile(sorted, 0.5) }

// quantile returns the value that a share q of the sorted values does not exceed, 0 without values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
