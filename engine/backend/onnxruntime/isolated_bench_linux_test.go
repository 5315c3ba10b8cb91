package onnxruntime_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// BenchmarkIsolated measures the CPU time of the server and of the model's process, with and without isolation.
func BenchmarkIsolated(b *testing.B) {
	for _, apartness := range []string{"none", "process"} {
		for _, width := range []int{16, 16 << 10} {
			for _, requests := range []int{1, 32} {
				b.Run(fmt.Sprintf("isolation %s/width %d/batch %d", apartness, width, requests), func(b *testing.B) {
					h, pids := isolatedHarness(b, apartness == "process", width, requests)
					ctx := context.Background()
					for range 100 {
						h.once(ctx, b)
					}
					theirs, ours := processTime(b, pids), cpuTime()
					for b.Loop() {
						h.once(ctx, b)
					}
					b.ReportMetric(float64((cpuTime()-ours).Microseconds())/float64(b.N), "server-µs/op")
					b.ReportMetric(float64((processTime(b, pids)-theirs).Microseconds())/float64(b.N), "process-µs/op")
				})
			}
		}
	}
}

func isolatedHarness(b *testing.B, process bool, width, requests int) (h *harness, pids []string) {
	folder, _ := repository(b, "identity_fp32")
	c := config(64, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}}, []tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}})
	backendOf := open(b)
	if process {
		isolate(c)
		backendOf = isolating(b)
	}
	m, err := backendOf.Load(b.Context(), backend.Spec{
		ModelName: "m", Version: 1, Config: c, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	inst, err := m.NewInstance(b.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := inst.Close(); err != nil {
			b.Error(err)
		}
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	if process {
		pids = children(b)
	}
	return &harness{inst: inst, requests: requests,
		in: tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, int64(width)},
			Data: fill(4*width, 1)}}, pids
}

// processTime returns the CPU time of processes, in nanoseconds. Source of the format: proc(5), schedstat of each
// thread.
func processTime(b *testing.B, pids []string) (sum time.Duration) {
	for _, pid := range pids {
		threads, err := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		if err != nil {
			b.Fatal(err)
		}
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(n)
		}
	}
	return sum
}
