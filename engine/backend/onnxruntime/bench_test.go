package onnxruntime_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// harness runs a batch of equal requests repeatedly, as the engine does.
type harness struct {
	inst     backend.Instance
	in       tensor.Tensor
	more     []tensor.Tensor
	requests int
	batch    infer.Batch
}

func newHarness(t testing.TB, folder string, c *inferencepb.ModelConfig, in tensor.Tensor, requests int) *harness {
	t.Helper()
	b := open(t)
	m, err := b.Load(t.Context(), backend.Spec{
		ModelName: "m", Version: 1, Config: c, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &harness{inst: inst, in: in, requests: requests}
}

func (h *harness) once(ctx context.Context, t testing.TB) {
	h.batch.Requests = h.batch.Requests[:0]
	for range h.requests {
		r := infer.New()
		r.Inputs = append(append(r.Inputs, h.in), h.more...)
		r.BatchSize = 1
		h.batch.Requests = append(h.batch.Requests, r)
	}
	h.batch.Rows = h.requests
	if err := h.inst.Execute(ctx, &h.batch); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.batch.Requests {
		resp, err := r.Next(ctx)
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp.Err)
		}
		resp.Release()
		r.Release()
	}
}

func identityHarness(t testing.TB, width, requests int) *harness {
	folder, _ := repository(t, "identity_fp32")
	dims := []int64{-1}
	return newHarness(t, folder,
		config(64, []tensorIO{{"INPUT0", tensor.FP32, dims}}, []tensorIO{{"OUTPUT0", tensor.FP32, dims}}),
		tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, int64(width)}, Data: fill(4*width, 1)},
		requests)
}

func mlpHarness(t testing.TB, requests int, parameters map[string]*inferencepb.ModelParameter) *harness {
	c := config(64, []tensorIO{{"input", tensor.FP32, []int64{784}}}, []tensorIO{{"output", tensor.FP32, []int64{10}}})
	c.Parameters = parameters
	return newHarness(t, filepath.Join("..", "..", "..", "models-sample", "mlp"), c,
		tensor.Tensor{Name: "input", DataType: tensor.FP32, Shape: []int64{1, 784}, Data: make([]byte, 4*784)},
		requests)
}

// addSubHarness runs a model whose file declares the shapes of its outputs.
func addSubHarness(t testing.TB, requests int) *harness {
	folder, _ := repository(t, "add_sub")
	dims := []int64{16}
	h := newHarness(t, folder, config(64, []tensorIO{{"INPUT0", tensor.Int32, dims}, {"INPUT1", tensor.Int32, dims}},
		[]tensorIO{{"OUTPUT0", tensor.Int32, dims}, {"OUTPUT1", tensor.Int32, dims}}),
		tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1, 16}, Data: fill(64, 1)}, requests)
	h.more = []tensor.Tensor{{Name: "INPUT1", DataType: tensor.Int32, Shape: []int64{1, 16}, Data: fill(64, 2)}}
	return h
}

// TestExecuteDoesNotAllocate covers copied outputs and outputs in ONNX Runtime's memory, for single requests and
// batches.
func TestExecuteDoesNotAllocate(t *testing.T) {
	if race {
		t.Skip("the race detector makes sync.Pool forget")
	}
	for _, tt := range []struct {
		name            string
		width, requests int
	}{{"small", 16, 1}, {"small batch", 16, 8}, {"large", 4096, 1}, {"large batch", 4096, 8}, {"known shapes", 0, 1},
		{"known shapes batch", 0, 8}} {
		t.Run(tt.name, func(t *testing.T) {
			h := addSubHarness(t, tt.requests)
			if tt.width > 0 {
				h = identityHarness(t, tt.width, tt.requests)
			}
			ctx := context.Background()
			if n := testing.AllocsPerRun(300, func() { h.once(ctx, t) }); n >= 1 {
				t.Errorf("%v allocations per Execute of %d requests, want 0", n, tt.requests)
			}
		})
	}
}

func BenchmarkExecute(b *testing.B) {
	one := map[string]*inferencepb.ModelParameter{"intra_op_thread_count": {StringValue: "1"}}
	two := map[string]*inferencepb.ModelParameter{"intra_op_thread_count": {StringValue: "2"}}
	for _, bb := range []struct {
		name string
		make func(b *testing.B) *harness
	}{
		{"identity16/1", func(b *testing.B) *harness { return identityHarness(b, 16, 1) }},
		{"addSub16/1", func(b *testing.B) *harness { return addSubHarness(b, 1) }},
		{"identity16/32", func(b *testing.B) *harness { return identityHarness(b, 16, 32) }},
		{"identity1M/1", func(b *testing.B) *harness { return identityHarness(b, 1<<20, 1) }},
		{"mlp/1", func(b *testing.B) *harness { return mlpHarness(b, 1, nil) }},
		{"mlp/32", func(b *testing.B) *harness { return mlpHarness(b, 32, nil) }},
		{"mlp one thread/1", func(b *testing.B) *harness { return mlpHarness(b, 1, one) }},
		{"mlp one thread/32", func(b *testing.B) *harness { return mlpHarness(b, 32, one) }},
		{"mlp two threads/32", func(b *testing.B) *harness { return mlpHarness(b, 32, two) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := bb.make(b)
			ctx := context.Background()
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				h.once(ctx, b)
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
