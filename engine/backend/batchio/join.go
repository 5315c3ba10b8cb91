package batchio

import (
	"slices"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Joins reports whether p and q, the same input of two requests, can be concatenated. nil is an input that the request
// does not have. Both must have the same datatype and, unless the input is ragged, the same shape except for the first
// dimension.
func Joins(p, q *tensor.Tensor, ragged bool) bool {
	if p == nil || q == nil {
		return p == q
	}
	if p.DataType != q.DataType {
		return false
	}
	return ragged || len(p.Shape) > 0 && len(q.Shape) > 0 && slices.Equal(p.Shape[1:], q.Shape[1:])
}

// Run returns how many of the requests, from the first on, can be executed together. alike compares two.
func Run(requests []*infer.Request, alike func(a, b *infer.Request) bool) int {
	n := 1
	for n < len(requests) && alike(requests[0], requests[n]) {
		n++
	}
	return n
}

// CheckRows checks that an output of a batch can be split into its rows. Errors: Internal.
func CheckRows(model, output string, shape []int64, rows int64) error {
	if len(shape) > 0 && shape[0] == rows {
		return nil
	}
	return status.Errorf(status.Internal, "model '%s' gave output '%s' the shape %s for a batch of %d; "+
		"its first dimension must be the batch, or set max_batch_size: 0", model, output, tensor.FormatShape(shape),
		rows)
}
