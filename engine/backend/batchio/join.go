package batchio

import (
	"slices"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Joins reports whether p and q, one input as two requests give it (nil: not at all), can be one tensor, the rows of the one
// after those of the other: they have the same type and the same shape but for the first dimension. Ragged inputs need only
// have the type.
func Joins(p, q *tensor.Tensor, ragged bool) bool {
	if p == nil || q == nil {
		return p == q
	}
	if p.DataType != q.DataType {
		return false
	}
	return ragged || len(p.Shape) > 0 && len(q.Shape) > 0 && slices.Equal(p.Shape[1:], q.Shape[1:])
}

// Run returns how many of the requests, one after the other from the first, can be executed at once; alike compares two.
func Run(requests []*infer.Request, alike func(a, b *infer.Request) bool) int {
	n := 1
	for n < len(requests) && alike(requests[0], requests[n]) {
		n++
	}
	return n
}

// CheckRows makes sure that an output that a model gave for so many rows can be told apart into them. Errors: Internal.
func CheckRows(model, output string, shape []int64, rows int64) error {
	if len(shape) > 0 && shape[0] == rows {
		return nil
	}
	return status.Errorf(status.Internal, "model '%s' gave output '%s' the shape %s for a batch of %d; its first dimension must be the batch, or set max_batch_size: 0",
		model, output, tensor.FormatShape(shape), rows)
}
