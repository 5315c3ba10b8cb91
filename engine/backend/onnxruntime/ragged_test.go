package onnxruntime_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// raggedConfig configures testdata/ragged.onnx: all kinds of batch inputs, and an output split by the shape of an
// input.
func raggedConfig() *inferencepb.ModelConfig {
	f32, i32 := tensor.FP32, tensor.Int32
	c := config(8, []tensorIO{{"RAGGED", f32, []int64{-1}}, {"GRID", f32, []int64{-1, -1}}}, []tensorIO{
		{"TWICE", f32, []int64{-1}}, {"COUNTS", i32, []int64{1}}, {"SUM", f32, []int64{1}},
		{"LONGEST", i32, []int64{1}},
		{"ITEMS", i32, []int64{-1}}, {"FLATS", f32, []int64{2}},
	})
	c.Input[0].AllowRaggedBatch, c.Input[1].AllowRaggedBatch = true, true
	add := func(kind inferencepb.BatchInput_Kind, target string, dt tensor.DataType, source string) {
		c.BatchInput = append(c.BatchInput, &inferencepb.BatchInput{
			Kind: kind, TargetName: []string{target}, DataType: inferencepb.DataType(dt), SourceInput: []string{source},
		})
	}
	add(inferencepb.BatchInput_BATCH_ELEMENT_COUNT, "COUNT", i32, "RAGGED")
	add(inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT, "ACCUMULATED", i32, "RAGGED")
	add(inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, "WITH_ZERO", f32, "RAGGED")
	add(inferencepb.BatchInput_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, "MAX", f32, "RAGGED")
	add(inferencepb.BatchInput_BATCH_ITEM_SHAPE, "ITEM", i32, "GRID")
	add(inferencepb.BatchInput_BATCH_ITEM_SHAPE_FLATTEN, "FLAT", f32, "GRID")
	c.BatchOutput = []*inferencepb.BatchOutput{{TargetName: []string{"TWICE"}, SourceInput: []string{"RAGGED"}}}
	return c
}

func TestRaggedBatch(t *testing.T) {
	model, err := open(t).Load(t.Context(), sample(t, "ragged", raggedConfig()))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := model.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	}()
	grids := [][]int64{{1, 2, 3}, {1, 1, 4}, {1, 5, 1}}
	values := [][]float32{{1, 2, 3}, {10, 20, 30, 40, 50}, {7}}
	for _, tt := range []struct {
		name, output string
		want         func(k int) ([]int64, []float32) // of request k
	}{
		{"C020 allow_ragged_batch", "SUM",
			func(k int) ([]int64, []float32) { return []int64{1, 1}, []float32{[]float32{6, 150, 7}[k]} }},
		{"C021 BATCH_ELEMENT_COUNT", "COUNTS",
			func(k int) ([]int64, []float32) { return []int64{1, 1}, []float32{float32(len(values[k]))} }},
		// SUM gathers the running sum at both: a wrong count gives another's numbers.
		{"C022 BATCH_ACCUMULATED_ELEMENT_COUNT and C023 WITH_ZERO", "SUM",
			func(k int) ([]int64, []float32) { return []int64{1, 1}, []float32{[]float32{6, 150, 7}[k]} }},
		{"C024 BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "LONGEST",
			func(int) ([]int64, []float32) { return []int64{1, 1}, []float32{5} }},
		{"C025 BATCH_ITEM_SHAPE", "ITEMS", func(k int) ([]int64, []float32) {
			return []int64{1, 2}, []float32{float32(grids[k][1]), float32(grids[k][2])}
		}},
		{"C025 BATCH_ITEM_SHAPE_FLATTEN", "FLATS", func(k int) ([]int64, []float32) {
			return []int64{1, 2}, []float32{float32(grids[k][1]), float32(grids[k][2])}
		}},
		{"C026 BATCH_SCATTER_WITH_INPUT_SHAPE", "TWICE", func(k int) ([]int64, []float32) {
			var twice []float32
			for _, v := range values[k] {
				twice = append(twice, 2*v)
			}
			return []int64{1, int64(len(twice))}, twice
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := infer.NewBatch()
			for k, grid := range grids {
				r := infer.New()
				r.ModelName, r.BatchSize = "ragged", 1
				r.Inputs = append(r.Inputs, floats("RAGGED", []int64{1, int64(len(values[k]))}, values[k]...),
					floats("GRID", grid, make([]float32, grid[1]*grid[2])...))
				b.Requests, b.Rows = append(b.Requests, r), b.Rows+1
			}
			if err := inst.Execute(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for k, r := range b.Requests {
				resp, err := r.Next(t.Context())
				if err != nil || resp.Err != nil {
					t.Fatalf("request %d: %v %v", k, err, resp.Err)
				}
				shape, want := tt.want(k)
				out := resp.Output(tt.output)
				if got := numbers(out); fmt.Sprint(out.Shape, got) != fmt.Sprint(shape, want) {
					t.Errorf("request %d: %s is %v %v, want %v %v", k, tt.output, out.Shape, got, shape, want)
				}
				resp.Release()
				r.Release()
			}
			b.Recycle()
		})
	}
}

// numbers reads a tensor of INT32 or FP32.
func numbers(x *tensor.Tensor) (all []float32) {
	for d := x.Data; len(d) > 0; d = d[4:] {
		v := binary.NativeEndian.Uint32(d)
		if x.DataType == tensor.Int32 {
			all = append(all, float32(int32(v)))
		} else {
			all = append(all, math.Float32frombits(v))
		}
	}
	return all
}

func TestRaggedIsRefused(t *testing.T) {
	b := open(t)
	for _, tt := range []struct {
		name, model string
		change      func(c *inferencepb.ModelConfig)
		text        string
	}{
		{"input with more than one dimension", "identity_fp32", func(c *inferencepb.ModelConfig) {
			*c = inferencepb.ModelConfig{MaxBatchSize: 8,
				Input: []*inferencepb.ModelInput{{Name: "INPUT0", DataType: inferencepb.DataType_TYPE_FP32,
					Dims: []int64{-1}, AllowRaggedBatch: true}}}
		}, "expects model provides input with shape [-1]  for ragged input 'INPUT0'"},
		{"target that the model does not have", "ragged",
			func(c *inferencepb.ModelConfig) { c.BatchInput[0].TargetName[0] = "COUNTER" }, "has no input 'COUNTER'"},
		{"datatype of a batch input", "ragged",
			func(c *inferencepb.ModelConfig) { c.BatchInput[0].DataType = inferencepb.DataType_TYPE_FP32 },
			"datatype TYPE_FP32 for batch input 'COUNT'"},
		{"dimensions of a batch input", "ragged",
			func(c *inferencepb.ModelConfig) { c.BatchInput[0].Kind = inferencepb.BatchInput_BATCH_ITEM_SHAPE },
			"batch input 'COUNT'"},
		{"batch input that is missing", "ragged", func(c *inferencepb.ModelConfig) { c.BatchInput = c.BatchInput[1:] },
			"configuration expects 2 inputs, model provides 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := raggedConfig()
			tt.change(c)
			_, err := b.Load(t.Context(), sample(t, tt.model, c))
			if status.CodeOf(err) != status.InvalidArg || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("Load: %v %v, want Invalid argument with %q", status.CodeOf(err), err, tt.text)
			}
		})
	}
}

func TestOneBadMember(t *testing.T) {
	t.Run("E4 only the bad member of a batch fails", func(t *testing.T) {
		cfg := config(8, []tensorIO{{"index", tensor.Int64, []int64{1}}},
			[]tensorIO{{"value", tensor.FP32, []int64{1}}})
		model, err := open(t).Load(t.Context(), sample(t, "table", cfg))
		if err != nil {
			t.Fatal(err)
		}
		inst, err := model.NewInstance(t.Context(),
			backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true})
		if err != nil {
			t.Fatal(err)
		}
		b := infer.NewBatch()
		for _, index := range []int64{0, 99, 2} { // the table has four rows
			r := infer.New()
			r.ModelName, r.BatchSize = "table", 1
			r.Inputs = append(r.Inputs, ints("index", []int64{1, 1}, index))
			b.Requests, b.Rows = append(b.Requests, r), b.Rows+1
		}
		if err := inst.Execute(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for k, want := range []float32{10, -1, 12} {
			resp, err := b.Requests[k].Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want < 0 {
				if resp.Err == nil {
					t.Error("the bad member was answered without an error")
				}
			} else if resp.Err != nil || numbers(resp.Output("value"))[0] != want {
				t.Errorf("member %d got %v %v, want %v", k, resp.Err, resp.Outputs, want)
			}
			resp.Release()
			b.Requests[k].Release()
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
}
