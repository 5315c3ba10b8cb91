package perf

import "context"

// search measures levels of a range. Linear: from the start upwards (or downwards, with an end below the start: the start
// alone), until measure is not within the limits. binary: the start, the end, and between them until two levels are no
// further apart than the step. measure's error ends the search.
func search(ctx context.Context, r Range, binary bool, measure func(ctx context.Context, level float64) (within bool, err error)) error {
	if binary {
		return bisect(ctx, r, measure)
	}
	for i := 0; ; i++ {
		level := r.Start + float64(i)*r.Step // no sum of roundings
		if i > 0 && r.End != 0 && level > r.End*(1+1e-12) {
			return nil
		}
		if within, err := measure(ctx, level); err != nil || !within {
			return err
		}
	}
}

func bisect(ctx context.Context, r Range, measure func(context.Context, float64) (bool, error)) error {
	if within, err := measure(ctx, r.Start); err != nil || !within {
		return err
	}
	if within, err := measure(ctx, r.End); err != nil || within {
		return err
	}
	low, high := r.Start, r.End
	for high-low > r.Step {
		mid := (low + high) / 2
		if r.whole() {
			mid = float64(int64(mid))
		}
		within, err := measure(ctx, mid)
		if err != nil {
			return err
		}
		if within {
			low = mid
		} else {
			high = mid
		}
	}
	return nil
}

// whole tells whether the levels are whole numbers, as those of a concurrency.
func (r Range) whole() bool {
	for _, v := range []float64{r.Start, r.End, r.Step} {
		if v != float64(int64(v)) {
			return false
		}
	}
	return true
}
