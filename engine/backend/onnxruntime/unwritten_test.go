package onnxruntime_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// concatModel is a model that puts its inputs beside each other, with parameters.
func concatModel(t *testing.T, parameters map[string]*inferencepb.ModelParameter) backend.Instance {
	t.Helper()
	c := config(0, []tensorIO{{"x", tensor.FP32, []int64{-1, -1}}, {"w", tensor.FP32, []int64{-1, -1}}},
		[]tensorIO{{"y", tensor.FP32, []int64{-1, -1}}})
	c.Parameters = parameters
	m, err := open(t).Load(t.Context(), sample(t, "concat", c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	inst, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inst.Close() })
	return inst
}

// concat returns the output for x of a shape, of one number, and w of [2, 2].
func concat(t *testing.T, inst backend.Instance, x float32, shape ...int64) ([]byte, error) {
	t.Helper()
	n := int(shape[0] * shape[1])
	r := infer.New()
	defer r.Release()
	r.Inputs = []tensor.Tensor{floats("x", shape, slices.Repeat([]float32{x}, n)...),
		floats("w", []int64{2, 2}, 1, 1, 1, 1)}
	if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
		t.Fatal(err)
	}
	resp, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Release()
	if resp.Err != nil {
		return nil, resp.Err
	}
	return bytes.Clone(resp.Output("y").Data), nil
}

// ONNX Runtime's Concat leaves a part of its output unwritten if an input has no elements and another size. The
// part must not show an earlier request. The output is once small and once large, for the two kinds of blocks.
func TestAnInputWithoutElementsShowsNoOtherRequest_C094(t *testing.T) {
	for _, width := range []int64{1000, 100_000} {
		inst := concatModel(t, nil)
		for range 5 {
			if _, err := concat(t, inst, 1234.5, 2, width); err != nil {
				t.Fatal(err)
			}
		}
		y, err := concat(t, inst, 0, 0, width)
		if err != nil {
			t.Fatal(err)
		}
		other := 0
		for v := range slices.Chunk(y, 4) {
			if f := math.Float32frombits(binary.LittleEndian.Uint32(v)); f != 0 && f != 1 {
				other++
			}
		}
		if len(y) != 2*4*(int(width)+2) || other > 0 {
			t.Errorf("width %d: %d bytes, of which %d numbers are not of this request", width, len(y), other)
		}
	}
}

// With ONNX Runtime's own allocators the server cannot clear the memory.
func TestAnInputWithoutElementsIsRefusedWithAnArena_C094(t *testing.T) {
	inst := concatModel(t, map[string]*inferencepb.ModelParameter{"enable_mem_arena": {StringValue: "true"}})
	if y, err := concat(t, inst, 1, 2, 3); err != nil || len(y) != 2*4*(3+2) {
		t.Errorf("with elements: %d bytes, %v", len(y), err)
	}
	if _, err := concat(t, inst, 0, 0, 3); err == nil || !strings.Contains(err.Error(), "operator Concat") {
		t.Errorf("without elements: %v, want a refusal", err)
	}
}
