package onnxruntime_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// cycle loads a model, runs a full batch on two instances and unloads it.
func cycle(t *testing.T, b backend.Backend, s backend.Spec, in []tensor.Tensor, rows int) {
	t.Helper()
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		inst, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
		}()
		r := infer.New()
		defer r.Release()
		r.Inputs, r.BatchSize = append(r.Inputs, in...), rows // a copy: the request clears its own
		if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: rows}); err != nil {
			t.Fatal(err)
		}
		resp, err := r.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp.Err)
		}
		resp.Release()
	}
	defer func() { // runs after the instances' ends, as the core has it
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
}

// TestAllocatedMemoryIsFreed checks that resident memory grows by at most 10 kB per cycle of loading, running and
// unloading, measured by linear regression after 20 cycles. NEREID_SOAK=full: five times as many cycles.
func TestAllocatedMemoryIsFreed(t *testing.T) {
	switch {
	case race:
		t.Skip("the race detector's own memory grows")
	case testing.Short():
		t.Skip("takes seconds")
	}
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("memory is read from /proc")
	}
	b, cycles := open(t), 200
	if os.Getenv("NEREID_SOAK") == "full" {
		cycles = 1000
	}
	mlpIn := []tensor.Tensor{{Name: "input", DataType: tensor.FP32, Shape: []int64{64, 784},
		Data: make([]byte, 64*784*4)}}
	own := mlpSpec()
	own.Config.Parameters = map[string]*inferencepb.ModelParameter{"intra_op_thread_count": {StringValue: "2"}}
	digits := filepath.Join("..", "..", "..", "models-sample", "digits")
	convolutions := backend.Spec{
		ModelName: "digits", Version: 1, ModelFolder: digits, VersionFolder: filepath.Join(digits, "1"),
		Log: slog.New(slog.DiscardHandler),
		Config: config(16, []tensorIO{{"image", tensor.FP32, []int64{1, 28, 28}}},
			[]tensorIO{{"scores", tensor.FP32, []int64{10}}}),
	}
	cases := map[string]func(t *testing.T){
		"light":       func(t *testing.T) { cycle(t, b, mlpSpec(), mlpIn, 64) },
		"own threads": func(t *testing.T) { cycle(t, b, own, mlpIn, 64) },
		"convolutions": func(t *testing.T) {
			cycle(t, b, convolutions,
				[]tensor.Tensor{{Name: "image", DataType: tensor.FP32, Shape: []int64{16, 1, 28, 28},
					Data: make([]byte, 16*784*4)}}, 16)
		},
		"broken": func(t *testing.T) {
			folder, version := lay(t, []byte("\x08\x0a\x3a\x04junk"))
			s := backend.Spec{ModelName: "m", Version: 1, Config: &inferencepb.ModelConfig{}, ModelFolder: folder,
				VersionFolder: version, Log: slog.New(slog.DiscardHandler)}
			if _, err := b.Load(t.Context(), s); err == nil {
				t.Fatal("a broken model loads")
			}
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			var samples []int64
			for i := range cycles {
				cases[name](t)
				if i >= 20 && i%5 == 0 {
					debug.FreeOSMemory() // what the Go side keeps for itself is not looked for here
					samples = append(samples, resident(t))
				}
			}
			grows := slope(samples) / 5 / 1024
			t.Logf("%d kB at cycle 20, %d kB at the end, %.1f kB a cycle", samples[0]>>10,
				samples[len(samples)-1]>>10, grows)
			if grows > 10 {
				t.Errorf("resident memory grows by %.1f kB a cycle, want at most 10; bytes at every fifth: %d", grows,
					samples)
			}
		})
	}
}

// A model on the CPU reports no GPU memory. The memory of an allocator that a session does not have is an error.
func TestNoDeviceMemoryOnTheCPU(t *testing.T) {
	m, err := open(t).Load(t.Context(), mlpSpec())
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(backend.DeviceMemoryReporter).DeviceMemoryBytes(); len(got) != 0 {
		t.Errorf("%v bytes of GPUs", got)
	}
	if err := errors.Join(inst.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

// slope returns the slope of the regression line through samples at 0, 1, 2, ...
func slope(samples []int64) float64 {
	n := float64(len(samples))
	var sx, sy, sxx, sxy float64
	for i, v := range samples {
		x, y := float64(i), float64(v)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

func TestSlope(t *testing.T) {
	if got := slope([]int64{5, 7, 9, 11}); got != 2 {
		t.Errorf("slope of a line = %v, want 2", got)
	}
	if got := slope([]int64{0, 10, 0, 10, 0}); got != 0 {
		t.Errorf("slope of what goes up and down = %v, want 0", got)
	}
}
