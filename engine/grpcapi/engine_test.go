package grpcapi

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/inferencepb"
)

var _ Engine = (*engine.Engine)(nil)

// realEngine serves an add_sub and an identity model from a repository made for the test.
func realEngine(t testing.TB) *engine.Engine {
	t.Helper()
	root := t.TempDir()
	for name, config := range map[string]string{
		"add_sub": `backend: "add_sub" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "INPUT1" data_type: TYPE_INT32 dims: 16 } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 } ]`,
		"identity": `backend: "identity" max_batch_size: 64 dynamic_batching {}
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: -1 } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 } ]`,
	} {
		if err := os.MkdirAll(filepath.Join(root, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "config.pbtxt"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		e.Close(ctx)
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func int32s(v ...int32) (b []byte) {
	for _, n := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func addSub(name string) *inferencepb.ModelInferRequest_InferInputTensor {
	return &inferencepb.ModelInferRequest_InferInputTensor{Name: name, Datatype: "INT32", Shape: []int64{1, 16}}
}

func TestRealEngineAddSub(t *testing.T) {
	e := realEngine(t)
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	a, b := make([]int32, 16), make([]int32, 16)
	for i := range a {
		a[i], b[i] = int32(i), int32(2*i)
	}
	raw := &inferencepb.ModelInferRequest{ModelName: "add_sub", Id: "7",
		Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
		RawInputContents: [][]byte{int32s(a...), int32s(b...)}}
	typed := &inferencepb.ModelInferRequest{ModelName: "add_sub",
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")}}
	typed.Inputs[0].Contents = &inferencepb.InferTensorContents{IntContents: a}
	typed.Inputs[1].Contents = &inferencepb.InferTensorContents{IntContents: b}
	for name, in := range map[string]*inferencepb.ModelInferRequest{"raw": raw, "typed": typed} {
		out, err := c.ModelInfer(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range 16 {
			sum := int32(binary.LittleEndian.Uint32(out.GetRawOutputContents()[0][4*i:]))
			diff := int32(binary.LittleEndian.Uint32(out.GetRawOutputContents()[1][4*i:]))
			if sum != a[i]+b[i] || diff != a[i]-b[i] {
				t.Errorf("%s: element %d: %d and %d, want %d and %d", name, i, sum, diff, a[i]+b[i], a[i]-b[i])
			}
		}
	}
	st, err := c.ModelStatistics(t.Context(), &inferencepb.ModelStatisticsRequest{Name: "add_sub"})
	if err != nil || st.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount() != 2 {
		t.Errorf("statistics %v, %v; want 2 successes", st, err)
	}
}

func TestRealEngineErrors(t *testing.T) {
	e := realEngine(t)
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	with := func(change func(*inferencepb.ModelInferRequest)) *inferencepb.ModelInferRequest {
		in := &inferencepb.ModelInferRequest{ModelName: "add_sub",
			Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
			RawInputContents: [][]byte{make([]byte, 64), make([]byte, 64)}}
		change(in)
		return in
	}
	for _, tt := range []struct {
		name string
		in   *inferencepb.ModelInferRequest
		code codes.Code
		text string
	}{
		{"unknown model", with(func(r *inferencepb.ModelInferRequest) { r.ModelName = "nope" }), codes.NotFound,
			"Request for unknown model: 'nope' is not found"},
		{"unknown version", with(func(r *inferencepb.ModelInferRequest) { r.ModelVersion = "9" }), codes.NotFound,
			"Request for unknown model: 'add_sub' version 9 is not found"},
		{"missing input", with(func(r *inferencepb.ModelInferRequest) {
			r.Inputs, r.RawInputContents = r.Inputs[:1], r.RawInputContents[:1]
		}), codes.InvalidArgument,
			"[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) " +
				"['INPUT0'], but missing required input(s) ['INPUT1']. Please provide all required input(s)."},
		{"duplicate input", with(func(r *inferencepb.ModelInferRequest) { r.Inputs[1].Name = "INPUT0" }),
			codes.InvalidArgument,
			"[request id: <id_unknown>] input 'INPUT0' already exists in request"},
		{"unknown output", with(func(r *inferencepb.ModelInferRequest) {
			r.Outputs = []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "NOPE"}}
		}), codes.InvalidArgument, "unexpected inference output 'NOPE' for model 'add_sub'"},
		{"raw size wrong", with(func(r *inferencepb.ModelInferRequest) { r.RawInputContents[0] = make([]byte, 60) }),
			codes.InvalidArgument,
			"[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'add_sub'. Expected " +
				"64, got 60"},
		{"wrong dtype", with(func(r *inferencepb.ModelInferRequest) { r.Inputs[0].Datatype = "FP32" }),
			codes.InvalidArgument,
			"[request id: <id_unknown>] inference input 'INPUT0' data-type is 'FP32', but model 'add_sub' expects " +
				"'INT32'"},
		{"unknown dtype", with(func(r *inferencepb.ModelInferRequest) { r.Inputs[0].Datatype = "FP8" }),
			codes.InvalidArgument,
			"[request id: <id_unknown>] inference input 'INPUT0' data-type is '<invalid>', but model 'add_sub' " +
				"expects 'INT32'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.ModelInfer(t.Context(), tt.in)
			if st := grpcstatus.Convert(err); st.Code() != tt.code || st.Message() != tt.text {
				t.Errorf("%v: %s\nwant\n%v: %s", st.Code(), st.Message(), tt.code, tt.text)
			}
		})
	}
	_, err := c.RepositoryModelLoad(t.Context(), &inferencepb.RepositoryModelLoadRequest{ModelName: "add_sub"})
	if st := grpcstatus.Convert(err); st.Code() != codes.Unavailable ||
		st.Message() != "explicit model load / unload is not allowed if polling is enabled" {
		t.Errorf("load outside explicit mode: %v", err)
	}
}

// TestRealEngineUnderLoad checks that no request sees another's bytes while memory is reused.
func TestRealEngineUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	conn, _ := start(t, realEngine(t), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	var wg sync.WaitGroup
	for client := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for round := range 40 {
				n := 1 + (client*977+round*7919)%40_000
				raw := make([]byte, 4*n)
				for i := range n {
					binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(float32(client*1000+round+i)))
				}
				in := &inferencepb.ModelInferRequest{ModelName: "identity", RawInputContents: [][]byte{raw},
					Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{fp32(n)}}
				out, err := c.ModelInfer(t.Context(), in)
				if err != nil {
					t.Error(err)
					return
				}
				if string(out.GetRawOutputContents()[0]) != string(raw) {
					t.Errorf("client %d, round %d: another answer of %d bytes, want %d", client, round,
						len(out.GetRawOutputContents()[0]), len(raw))
					return
				}
			}
		}()
	}
	wg.Wait()
}

func BenchmarkModelInfer(b *testing.B) {
	conn, _ := start(b, realEngine(b), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	in := &inferencepb.ModelInferRequest{ModelName: "identity", RawInputContents: [][]byte{make([]byte, 64)},
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{fp32(16)}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.ModelInfer(context.Background(), in); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "infer/s")
}
