//go:build cuda && linux && amd64

package onnxruntime_test

import (
	"log/slog"
	"os"
	"testing"

	"nereid/engine/backend/onnxruntime"
	"nereid/engine/device/cuda"
	"nereid/engine/gpumem"
)

// TestGPUThroughPinnedMemory checks that models on a GPU give the results of the CPU when their tensors go through
// pinned memory, which is free afterwards, and when the pool has no room.
func TestGPUThroughPinnedMemory(t *testing.T) {
	gpus(t)
	plain := open(t)
	d := cuda.New(slog.Default())
	defer d.Close()
	for name, bytes := range map[string]int64{"room": 16 << 20, "no room": 256} {
		memory := gpumem.New(gpumem.Options{Driver: d, PinnedBytes: bytes})
		b := onnxruntime.New(onnxruntime.Options{Library: os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), Threads: 2,
			GPUMemory: memory})
		for model, get := range gpuModels() {
			s, in, output := get()
			cpu := ask(t, plain, s, 1, in)
			if cpu.Err != nil {
				t.Fatal(cpu.Err)
			}
			accelerate(s.Config, "", nil)
			got, err := onGPU(t, b, s, 0, in, output)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, model, err)
			}
			compare(t, got, numbers(cpu.Output(output)), 1e-3)
		}
		stats := memory.Stats().Pinned
		t.Logf("%s: %+v", name, stats)
		if stats.Used != 0 || (stats.Misses == 0) != (name == "room") {
			t.Errorf("%s: %+v", name, stats)
		}
		memory.Close()
	}
}
