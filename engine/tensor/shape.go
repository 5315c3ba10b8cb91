package tensor

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"nereid/engine/status"
)

// MaxDims is the largest number of dimensions of a tensor in a request. The server keeps eight bytes for a dimension,
// which takes one in a gRPC message and two in JSON.
const MaxDims = 1024

// Elements returns the number of elements of a shape, 1 for the empty shape. It returns InvalidArg for a negative
// dimension and for a product above the range of int64.
func Elements(shape []int64) (int64, error) {
	n := uint64(1)
	zero := false
	for _, d := range shape {
		if d < 0 {
			return 0, status.Errorf(status.InvalidArg, "shape %s has a negative dimension", FormatShape(shape))
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, status.Errorf(status.InvalidArg,
				"shape %s has more elements than an int64 can count", FormatShape(shape))
		}
		n = lo
	}
	if zero {
		return 0, nil
	}
	return int64(n), nil
}

// JoinShapes returns the shape of two tensors of one data type, one after the other: along the first dimension if the
// others are equal, else as a list of all elements. Both shapes must be valid.
func JoinShapes(a, b []int64) []int64 {
	if len(a) > 0 && len(a) == len(b) && slices.Equal(a[1:], b[1:]) {
		return append([]int64{a[0] + b[0]}, a[1:]...)
	}
	n, _ := Elements(a)
	m, _ := Elements(b)
	return []int64{n + m}
}

// ByteSize returns the size in bytes of a tensor. For BYTES it returns -1, because the size depends on the content.
// The errors are those of Elements, and InvalidArg if the size is above the range of int64.
func ByteSize(dt DataType, shape []int64) (int64, error) {
	n, err := Elements(shape)
	if err != nil {
		return 0, err
	}
	size := int64(dt.Size())
	if size == 0 {
		return -1, nil
	}
	if n > math.MaxInt64/size {
		return 0,
			status.Errorf(status.InvalidArg, "shape %s of %s is larger than memory can be", FormatShape(shape), dt)
	}
	return n * size, nil
}

// FormatShape formats a shape as in Triton's messages: "[1,16]".
func FormatShape(shape []int64) string {
	b := make([]byte, 0, 2+4*len(shape))
	b = append(b, '[')
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	return string(append(b, ']'))
}
