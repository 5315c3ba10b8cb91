package whatif

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// enough is how many executions of a batch size make its times known.
const enough = 5

// execution is one execution: when it began, since the first request, and how long it took.
type execution struct{ at, took time.Duration }

// times are the recorded execution times by batch size. The zero value is of no use; see newTimes.
type times struct {
	sizes  []int // those that are known, ascending
	took   map[int][]execution
	median map[int]time.Duration
	slope  time.Duration // what a further row takes, above the largest size
}

// newTimes takes the executions by batch size, in their order. There must be at least one.
func newTimes(took map[int][]execution) *times {
	t := &times{took: took, median: map[int]time.Duration{}}
	most := 0
	for _, list := range took {
		most = max(most, len(list))
	}
	for _, size := range slices.Sorted(maps.Keys(took)) {
		if list := took[size]; len(list) >= min(enough, most) {
			t.sizes = append(t.sizes, size)
			t.median[size] = quantile(slices.Sorted(durations(list)), 0.5)
		}
	}
	first, last := t.sizes[0], t.sizes[len(t.sizes)-1]
	if first == last {
		t.slope = t.median[last] / time.Duration(max(last, 1)) // nothing says that a larger batch is of use
	} else {
		t.slope = max(0, t.median[last]-t.median[first]) / time.Duration(last-first)
	}
	return t
}

func (t *times) largest() int { return t.sizes[len(t.sizes)-1] }

// typical returns the expected time of a batch size.
func (t *times) typical(rows int) time.Duration {
	i, found := slices.BinarySearch(t.sizes, rows)
	switch {
	case found:
		return t.median[rows]
	case i == 0: // smaller than any: not less than its share
		least := t.sizes[0]
		share := t.median[least] * time.Duration(rows) / time.Duration(least)
		return max(t.median[least]-t.slope*time.Duration(least-rows), share)
	case i == len(t.sizes):
		return t.median[t.largest()] + t.slope*time.Duration(rows-t.largest())
	}
	a, b := t.sizes[i-1], t.sizes[i]
	return t.median[a] + (t.median[b]-t.median[a])*time.Duration(rows-a)/time.Duration(b-a)
}

// draw returns the time of an execution that begins at a moment: that of the recorded one of the nearest size that
// began next, in proportion to the size. So what slowed the machine down meets the requests that it met.
func (t *times) draw(rows int, at time.Duration) time.Duration {
	size := slices.MinFunc(t.sizes, func(a, b int) int { return max(a-rows, rows-a) - max(b-rows, rows-b) })
	list := t.took[size]
	i, _ := slices.BinarySearchFunc(list, at, func(x execution, at time.Duration) int { return cmp.Compare(x.at, at) })
	took := list[min(i, len(list)-1)].took
	if size == rows || t.median[size] == 0 {
		return took
	}
	return time.Duration(float64(took) * float64(t.typical(rows)) / float64(t.median[size]))
}

func durations(list []execution) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for _, x := range list {
			if !yield(x.took) {
				return
			}
		}
	}
}

// quantile returns the value below which a share of a sorted list is; 0 of an empty one.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
