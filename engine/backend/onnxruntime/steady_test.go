package onnxruntime_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

func TestRowsOfRunsAreSteady(t *testing.T) {
	take := onnxruntime.SteadyRows(12)
	for i, n := range []int{1, 3, 2, 4, 5, 1, 9, 1, 12, 8, 0, 13} {
		want := []int{1, 4, 4, 4, 8, 8, 12, 12, 12, 12, 0, 13}[i] // more than max_batch_size is left alone
		if got := take(n); got != want {
			t.Errorf("run %d of %d rows has %d, want %d", i, n, got, want)
		}
	}
	var rows []int
	for range 200 { // the run of 8 was one of those
		rows = append(rows, take(1))
	}
	if n := slices.Index(rows, 8); n != 62 || slices.Index(rows, 1) != n+64 {
		t.Errorf("runs of one row after large ones have %d rows; want 12, after 64 small ones 8, after 64 more 1", rows)
	}
}

// Models with convolutions have few sizes of runs on a GPU, and the results of the CPU.
func TestRunsWithConvolutionsAreFilledUp(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*inferencepb.ModelConfig)
		want []int
	}{
		"dynamic batching": {func(c *inferencepb.ModelConfig) {
			c.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{
				DynamicBatching: &inferencepb.ModelDynamicBatching{}}
		}, []int{8, 8, 8}},
		"no dynamic batching": {func(*inferencepb.ModelConfig) {}, []int{5, 1, 3}},
		"TensorRT": {func(c *inferencepb.ModelConfig) {
			c.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{
				DynamicBatching: &inferencepb.ModelDynamicBatching{}}
			c.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: &accelerators{
				GpuExecutionAccelerator: []*accelerator{{Name: "tensorrt"}}}}
		}, []int{5, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			o, cpu := fakeGPUs(t, 1<<20, 1<<20), open(t)
			folder := filepath.Join("..", "..", "..", "models-sample", "digits")
			s := backend.Spec{ModelName: "digits", Version: 1, ModelFolder: folder, Log: slog.New(slog.DiscardHandler),
				VersionFolder: filepath.Join(folder, "1"),
				Config: config(16, []tensorIO{{"image", tensor.FP32, []int64{1, 28, 28}}},
					[]tensorIO{{"scores", tensor.FP32, []int64{10}}})}
			tt.edit(s.Config)
			inst := o.instance(t, s)
			for i, rows := range []int{5, 1, 3} {
				pixels := make([]float32, rows*784)
				for k := range pixels {
					pixels[k] = float32(k*k%251) / 255
				}
				in := floats("image", []int64{int64(rows), 1, 28, 28}, pixels...)
				got := once(t, inst, rows, in)
				if got.Err != nil {
					t.Fatal(got.Err)
				}
				want := ask(t, cpu, s, rows, in)
				if want.Err != nil {
					t.Fatal(want.Err)
				}
				if n := len(got.Output("scores").Data); n != rows*40 {
					t.Errorf("the answer to %d rows has %d bytes", rows, n)
				}
				compare(t, numbers(got.Output("scores")), numbers(want.Output("scores")), 1e-5)
				if n := onnxruntime.RunRows(inst); n != tt.want[i] {
					t.Errorf("the run for %d rows has %d, want %d", rows, n, tt.want[i])
				}
				got.Release()
				want.Release()
			}
		})
	}
}

// A model that accepts only some numbers of rows, or a GPU without memory for more, answers what it can answer.
func TestAFilledRunThatFailsIsRepeatedWithItsOwnRows(t *testing.T) {
	o := fakeGPUs(t, 1<<20, 1<<20)
	o.b.FillRuns()
	inst := o.instance(t, sample(t, "mixes_rows", config(8, []tensorIO{{"x", tensor.FP32, []int64{2}}},
		[]tensorIO{{"y", tensor.FP32, []int64{2}}}))) // its output has one row, whatever the rows of the input
	for i, rows := range []int{4, 1, 1, 1} {
		got := once(t, inst, rows, floats("x", []int64{int64(rows), 2}, make([]float32, 2*rows)...))
		if (got.Err != nil) != (rows > 1) {
			t.Errorf("run %d, of %d rows: error %v", i, rows, got.Err)
		}
		if rows > 1 && !strings.Contains(got.Err.Error(), "for a batch of 4") {
			t.Errorf("run %d: error %v does not name the rows of the request", i, got.Err)
		}
		got.Release()
	}
	if n := onnxruntime.RunRows(inst); n != 1 {
		t.Errorf("after failures with 4 and 2 rows, a run of one row has %d", n)
	}
}

// A run whose rows have another shape than those before is planned again in any case.
func TestRowsOfAnotherShapeAreNotFilledUp(t *testing.T) {
	o := fakeGPUs(t, 1<<20, 1<<20)
	o.b.FillRuns()
	inst := o.instance(t, sample(t, "identity_fp32", config(8, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}},
		[]tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}})))
	runs := []struct{ rows, width, want int }{{8, 3, 8}, {1, 3, 8}, {1, 5, 1}, {2, 5, 2}, {1, 5, 2}, {1, 3, 1}}
	for i, run := range runs {
		got := once(t, inst, run.rows, floats("INPUT0", []int64{int64(run.rows), int64(run.width)},
			make([]float32, run.rows*run.width)...))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		got.Release()
		if n := onnxruntime.RunRows(inst); n != run.want {
			t.Errorf("run %d, %+v, has %d rows", i, run, n)
		}
	}
}
