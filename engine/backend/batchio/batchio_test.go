package batchio_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend/batchio"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func plan(maxBatch int32, kind inferencepb.BatchInput_Kind) *batchio.Plan {
	return batchio.New(&inferencepb.ModelConfig{
		MaxBatchSize: maxBatch,
		Input:        []*inferencepb.ModelInput{{Name: "IN", AllowRaggedBatch: true}},
		Output:       []*inferencepb.ModelOutput{{Name: "OUT", Dims: []int64{-1, 2}}, {Name: "PLAIN"}},
		BatchInput: []*inferencepb.BatchInput{{Kind: kind, TargetName: []string{"A", "B"},
			DataType:    inferencepb.DataType_TYPE_INT32,
			SourceInput: []string{"IN"}}},
		BatchOutput: []*inferencepb.BatchOutput{{TargetName: []string{"OUT"}, SourceInput: []string{"IN"}}},
	})
}

func batch(shapes ...[]int64) (all []*infer.Request) {
	for _, shape := range shapes {
		r := infer.New()
		r.ModelName = "m"
		if shape != nil {
			r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", Shape: shape})
		}
		all = append(all, r)
	}
	return all
}

func TestBatchInputs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		maxBatch int32
		kind     inferencepb.BatchInput_Kind
		requests [][]int64
		shape    []int64
		values   []int32
	}{
		{"C021 counts elements of requests, not of rows", 8, inferencepb.BatchInput_BATCH_ELEMENT_COUNT,
			[][]int64{{2, 3}, {1, 5}}, []int64{2}, []int32{6, 5}},
		{"C022 accumulates", 8, inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT, [][]int64{{2, 3}, {1, 5}},
			[]int64{2}, []int32{6, 11}},
		{"C023 begins with zero", 8, inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO,
			[][]int64{{2, 3}, {1, 5}}, []int64{3}, []int32{0, 6, 11}},
		{"C024 the largest as a shape", 8, inferencepb.BatchInput_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE,
			[][]int64{{1, 2}, {1, 3}}, []int64{3}, []int32{0, 0, 0}},
		{"C025 a shape for each row", 8, inferencepb.BatchInput_BATCH_ITEM_SHAPE, [][]int64{{2, 3, 4}, {1, 5, 6}},
			[]int64{3, 2}, []int32{3, 4, 3, 4, 5, 6}},
		{"C025 flat", 8, inferencepb.BatchInput_BATCH_ITEM_SHAPE_FLATTEN, [][]int64{{2, 3, 4}, {1, 5, 6}}, []int64{6},
			[]int32{3, 4, 3, 4, 5, 6}},
		{"C025 without a batch dimension the whole shape", 0, inferencepb.BatchInput_BATCH_ITEM_SHAPE,
			[][]int64{{3, 4}}, []int64{1, 2}, []int32{3, 4}},
		{"no elements", 8, inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT, [][]int64{{1, 0}, {1, 2}},
			[]int64{2}, []int32{0, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := plan(tt.maxBatch, tt.kind)
			if len(p.Inputs) != 2 || p.Input("B") == nil || p.Input("IN") != nil {
				t.Fatalf("batch inputs are %v, want A and B", p.Inputs)
			}
			requests := batch(tt.requests...)
			shape, err := p.Input("A").Shape(nil, requests)
			if err != nil || !slices.Equal(shape, tt.shape) || len(shape) != p.Input("A").Rank() {
				t.Fatalf("Shape = %v, %v; want %v", shape, err, tt.shape)
			}
			data := make([]byte, 4*len(tt.values))
			if err := p.Input("A").Fill(data, requests); err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.values {
				if got := int32(binary.NativeEndian.Uint32(data[4*i:])); got != want {
					t.Errorf("value %d is %d, want %d", i, got, want)
				}
			}
		})
	}
}

func TestMissingSource(t *testing.T) {
	for kind := range inferencepb.BatchInput_Kind_name {
		in := plan(8, inferencepb.BatchInput_Kind(kind)).Input("A")
		requests := batch([]int64{1, 2}, nil)
		_, err := in.Shape(nil, requests)
		if err == nil {
			err = in.Fill(make([]byte, 64), requests)
		}
		if status.CodeOf(err) != status.InvalidArg || !strings.Contains(fmt.Sprint(err), "input 'IN' is missing") {
			t.Errorf("%v: %v, want Invalid argument", inferencepb.BatchInput_Kind(kind), err)
		}
	}
}

func TestOutputs(t *testing.T) {
	p := plan(8, 0)
	if p.Output("PLAIN") != nil || !p.Ragged("IN") || p.Ragged("OUT") {
		t.Error("only OUT is cut, and only IN is ragged")
	}
	for _, tt := range []struct {
		name     string
		source   []int64
		shape    []int64
		elements int64
		err      status.Code
	}{
		{name: "C026 variable dimensions are the source's", source: []int64{3, 4, 9}, shape: []int64{3, 4, 2},
			elements: 24},
		{name: "source with fewer dimensions", source: []int64{3}, err: status.InvalidArg},
		{name: "source missing", err: status.InvalidArg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape, n, err := p.Output("OUT").Shape(nil, batch(tt.source)[0])
			if tt.err != 0 {
				if status.CodeOf(err) != tt.err {
					t.Errorf("Shape = %v, want code %v", err, tt.err)
				}
				return
			}
			if err != nil || !slices.Equal(shape, tt.shape) || n != tt.elements {
				t.Errorf("Shape = %v, %d, %v; want %v, %d", shape, n, err, tt.shape, tt.elements)
			}
		})
	}
	if batchio.New(&inferencepb.ModelConfig{}) != nil {
		t.Error("a configuration that says nothing of batches has a plan")
	}
	var none *batchio.Plan
	if none.Ragged("IN") || none.Input("A") != nil || none.Output("OUT") != nil {
		t.Error("no plan says something")
	}
}
