package batchio_test

import (
	"testing"

	"nereid/engine/backend/batchio"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func TestJoins(t *testing.T) {
	of := func(dt tensor.DataType, shape ...int64) *tensor.Tensor {
		return &tensor.Tensor{DataType: dt, Shape: shape}
	}
	for _, tt := range []struct {
		name   string
		p, q   *tensor.Tensor
		ragged bool
		want   bool
	}{
		{name: "neither request gives it", want: true},
		{name: "one request gives it", p: of(tensor.FP32, 1, 2)},
		{name: "one request gives a ragged one", p: of(tensor.FP32, 1, 2), ragged: true},
		{name: "other rows", p: of(tensor.FP32, 1, 2), q: of(tensor.FP32, 3, 2), want: true},
		{name: "other columns", p: of(tensor.FP32, 1, 2), q: of(tensor.FP32, 1, 3)},
		{name: "other columns of a ragged one", p: of(tensor.FP32, 1, 2), q: of(tensor.FP32, 1, 3), ragged: true,
			want: true},
		{name: "other types", p: of(tensor.FP32, 1, 2), q: of(tensor.Int32, 1, 2)},
		{name: "other types of a ragged one", p: of(tensor.FP32, 1, 2), q: of(tensor.Int32, 1, 2), ragged: true},
		{name: "scalars", p: of(tensor.FP32), q: of(tensor.FP32)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pair := range [][2]*tensor.Tensor{{tt.p, tt.q}, {tt.q, tt.p}} {
				if got := batchio.Joins(pair[0], pair[1], tt.ragged); got != tt.want {
					t.Errorf("Joins(%v, %v, %v) = %v, want %v", pair[0], pair[1], tt.ragged, got, tt.want)
				}
			}
		})
	}
}

func TestRun(t *testing.T) {
	alike := func(a, b *infer.Request) bool { return a.BatchSize == b.BatchSize }
	requests := batch(nil, nil, nil, nil)
	for i, rows := range []int{1, 1, 2, 1} {
		requests[i].BatchSize = rows
	}
	if n := batchio.Run(requests, alike); n != 2 {
		t.Errorf("Run of batches of 1, 1, 2, 1 = %d, want 2", n)
	}
}

func TestCheckRows(t *testing.T) {
	if err := batchio.CheckRows("m", "o", []int64{3, 2}, 3); err != nil {
		t.Errorf("CheckRows of 3 rows = %v", err)
	}
	for _, shape := range [][]int64{nil, {2, 3}} {
		if err := batchio.CheckRows("m", "o", shape, 3); status.CodeOf(err) != status.Internal {
			t.Errorf("CheckRows of the shape %v for 3 rows = %v, want an internal error", shape, err)
		}
	}
}
