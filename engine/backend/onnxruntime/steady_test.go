package onnxruntime_test

import (
	"log/slog"
	"path/filepath"
	"slices"
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
