package whatif

import (
	"maps"
	"slices"
	"time"
)

// enough is how many executions of a batch size make its times known.
const enough = 5

// times are the recorded execution times by batch size. The zero value is of no use; see newTimes.
type times struct {
	sizes  []int // those that are known, ascending
	took   map[int][]time.Duration
	median map[int]time.Duration
	next   map[int]int   // the execution of a size that is drawn next
	slope  time.Duration // what a further row takes, above the largest size
}

// newTimes takes the execution times by batch size. There must be at least one.
func newTimes(took map[int][]time.Duration) *times {
	t := &times{took: took, median: map[int]time.Duration{}, next: map[int]int{}}
	most := 0
	for _, list := range took {
		most = max(most, len(list))
	}
	for _, size := range slices.Sorted(maps.Keys(took)) {
		if list := took[size]; len(list) >= min(enough, most) {
			t.sizes = append(t.sizes, size)
			t.median[size] = quantile(slices.Sorted(slices.Values(list)), 0.5)
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

// draw returns the time of an execution: the next that was recorded of the nearest size, in proportion to the size.
func (t *times) draw(rows int) time.Duration {
	size := slices.MinFunc(t.sizes, func(a, b int) int { return max(a-rows, rows-a) - max(b-rows, rows-b) })
	list := t.took[size]
	took := list[t.next[size]%len(list)]
	t.next[size]++
	if size == rows || t.median[size] == 0 {
		return took
	}
	return time.Duration(float64(took) * float64(t.typical(rows)) / float64(t.median[size]))
}

// quantile returns the value below which a share of a sorted list is; 0 of an empty one.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
