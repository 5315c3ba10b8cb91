package compare

import (
	"cmp"
	"math"
	"slices"

	"nereid/engine/tensor"
)

// Agreement says how many rows, along the last dimension, have the same K highest elements, in any order.
type Agreement struct {
	K, Rows, Same int
}

// TopK compares the k highest elements of each row of two tensors of numbers that have passed Check. Of equal elements
// the first is the higher one, and NaN is the lowest. It returns false if there is nothing to compare: k is not
// smaller than the last dimension, or there is none.
func TopK(a, b *tensor.Tensor, k int) (Agreement, bool) {
	n := len(a.Shape)
	if n == 0 || a.DataType == tensor.Bytes || k < 1 || a.Shape[n-1] <= int64(k) || len(a.Data) == 0 {
		return Agreement{}, false
	}
	row := int(a.Shape[n-1]) * a.DataType.Size()
	out := Agreement{K: k}
	for at := 0; at < len(a.Data); at += row {
		x, y := a.Data[at:at+row], b.Data[at:at+row]
		out.Rows++
		if slices.Equal(highest(a.DataType, x, k), highest(b.DataType, y, k)) {
			out.Same++
		}
	}
	return out, true
}

// highest returns the indices of the k highest elements of a row, ascending.
func highest(dt tensor.DataType, row []byte, k int) []int {
	type element struct {
		v  float64
		at int
	}
	size := dt.Size()
	best := make([]element, 0, k+1)
	for i := range len(row) / size {
		v := number(dt, row[i*size:])
		if len(best) == k && v <= best[k-1].v {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, v, func(e element, v float64) int {
			if e.v >= v {
				return -1 // an equal element that came before stays before
			}
			return 1
		})
		if best = slices.Insert(best, at, element{v, i}); len(best) > k {
			best = best[:k]
		}
	}
	indices := make([]int, len(best))
	for i, e := range best {
		indices[i] = e.at
	}
	slices.SortFunc(indices, cmp.Compare)
	return indices
}

// number returns an element as a number that can be ordered. Integers above 2^53 are rounded.
func number(dt tensor.DataType, data []byte) float64 {
	if !IsFloat(dt) {
		n := Integer(dt, data)
		if dt == tensor.Uint64 {
			return float64(n)
		}
		return float64(int64(n))
	}
	if f := tensor.Float(dt, data); !math.IsNaN(f) {
		return f
	}
	return math.Inf(-1)
}
