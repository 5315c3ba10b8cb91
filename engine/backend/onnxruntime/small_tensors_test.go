package onnxruntime_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// An instance reuses the memory of small inputs and outputs, and ONNX Runtime's values for it. Random runs (single
// requests and batches, different numbers of rows, optional inputs, failed runs) must give each request its own
// outputs, and later runs must not change them.
func TestReusedMemoryKeepsResponses(t *testing.T) {
	b := open(t)
	rng := rand.New(rand.NewPCG(4, 4))
	random := func(name string, rows, width int64) tensor.Tensor {
		v := make([]float32, rows*width)
		for i := range v {
			v[i] = float32(rng.IntN(1000))
		}
		return floats(name, []int64{rows, width}, v...)
	}
	values := func(x tensor.Tensor) (v []float32) {
		for d := x.Data; len(d) > 0; d = d[4:] {
			v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(d)))
		}
		return v
	}
	for _, tt := range []struct {
		name  string
		spec  backend.Spec
		batch bool
		make  func() []tensor.Tensor
		want  func(in []tensor.Tensor) []float32 // nil: the request fails
	}{
		{"two inputs, one of them optional",
			sample(t, "default",
				config(0, []tensorIO{{"x", tensor.FP32, []int64{-1, 2}}, {"bias", tensor.FP32, []int64{2}}},
					[]tensorIO{{"y", tensor.FP32, []int64{-1, 2}}})), false,
			func() []tensor.Tensor {
				in := []tensor.Tensor{random("x", int64(1+rng.IntN(3)), 2)}
				if rng.IntN(2) == 0 {
					bias := random("bias", 1, 2)
					bias.Shape = []int64{2}
					in = append(in, bias)
				}
				return in
			}, func(in []tensor.Tensor) []float32 {
				v, bias := values(in[0]), []float32{1, 2}
				if len(in) > 1 {
					bias = values(in[1])
				}
				for i := range v {
					v[i] += bias[i%2]
				}
				return v
			}},
		{"a shape that is not what the file says",
			sample(t, "other_shape",
				config(8, []tensorIO{{"x", tensor.FP32, []int64{3}}},
					[]tensorIO{{"y", tensor.FP32, []int64{3}}})), true,
			func() []tensor.Tensor { return []tensor.Tensor{random("x", int64(1+rng.IntN(3)), 3)} },
			func(in []tensor.Tensor) (v []float32) {
				for i, x := range values(in[0]) {
					if i%3 != 1 {
						v = append(v, x)
					}
				}
				return v
			}},
		{"an output that is there before the run",
			sample(t, "constant", config(0, []tensorIO{{"x", tensor.FP32, []int64{2}}},
				[]tensorIO{{"y", tensor.FP32, []int64{2}}, {"z", tensor.FP32, []int64{2}}})), false,
			func() []tensor.Tensor {
				x := random("x", 1, 2)
				x.Shape = []int64{2}
				return []tensor.Tensor{x}
			}, func(in []tensor.Tensor) []float32 { return []float32{3, 4} }},
		{"runs that fail", sample(t, "table", config(8, []tensorIO{{"index", tensor.Int64, []int64{1}}},
			[]tensorIO{{"value", tensor.FP32, []int64{1}}})), true,
			func() []tensor.Tensor {
				rows := 1 + rng.IntN(3)
				v := make([]int64, rows)
				for i := range v {
					v[i] = int64(rng.IntN(4))
				}
				if rng.IntN(6) == 0 {
					v[0] = 44
				}
				return []tensor.Tensor{ints("index", []int64{int64(rows), 1}, v...)}
			}, func(in []tensor.Tensor) (v []float32) {
				for d := in[0].Data; len(d) > 0; d = d[8:] {
					if d[0] == 44 {
						return nil
					}
					v = append(v, 10+float32(d[0]))
				}
				return v
			}},
		{"inputs above and below what is copied", sample(t, "identity_fp32",
			config(8, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}},
				[]tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}})), true,
			func() []tensor.Tensor {
				return []tensor.Tensor{random("INPUT0", 1, []int64{1, 7, 1024, 1025, 5000}[rng.IntN(5)])}
			}, func(in []tensor.Tensor) []float32 { return values(in[0]) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := b.Load(t.Context(), tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			inst, err := m.NewInstance(t.Context(),
				backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
			if err != nil {
				t.Fatal(err)
			}
			type open struct {
				r    *infer.Request
				resp *infer.Response
				want []float32
			}
			var held []open
			check := func(o open) {
				if len(o.want) > 0 && (o.resp.Err != nil || !slices.Equal(values(o.resp.Outputs[0]), o.want)) ||
					o.want == nil && o.resp.Err == nil {
					t.Fatalf("answer %v to %v, want %v", o.resp, o.r.Inputs, o.want)
				}
				o.resp.Release()
				o.r.Release()
			}
			for range 400 {
				batch := infer.Batch{}
				n := 1
				if tt.batch {
					n += rng.IntN(3)
				}
				for range n {
					r := infer.New()
					r.Inputs = tt.make()
					r.BatchSize = 1
					if tt.batch {
						r.BatchSize = int(r.Inputs[0].Shape[0])
					}
					batch.Rows += r.BatchSize
					batch.Requests = append(batch.Requests, r)
				}
				if err := inst.Execute(t.Context(), &batch); err != nil {
					t.Fatal(err)
				}
				for _, r := range batch.Requests {
					resp, err := r.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, open{r, resp, tt.want(r.Inputs)})
				}
				for len(held) > 5 { // the others are read later
					i := rng.IntN(len(held))
					check(held[i])
					held = slices.Delete(held, i, i+1)
				}
			}
			for _, o := range held {
				check(o)
			}
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
