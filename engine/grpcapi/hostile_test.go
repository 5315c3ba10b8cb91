package grpcapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/build/corrupt"
	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/inferencepb"
	"nereid/engine/stats"
	"nereid/engine/tensor"
)

// controlAnswers fails the test unless the control model still adds.
func controlAnswers(t *testing.T, c inferencepb.GRPCInferenceServiceClient) {
	t.Helper()
	ones := make([]int32, 16)
	for i := range ones {
		ones[i] = 1
	}
	out, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "add_sub",
		Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
		RawInputContents: [][]byte{int32s(ones...), int32s(ones...)}})
	if err != nil || binary.LittleEndian.Uint32(out.GetRawOutputContents()[0]) != 2 {
		t.Errorf("the control model answers %v, %v", out, err)
	}
}

// gRPC refuses the same shapes and strings as HTTP, and continues to serve.
func TestHostileMessages(t *testing.T) {
	conn, _ := start(t, realEngine(t), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	shaped := func(shape ...int64) *inferencepb.ModelInferRequest {
		return &inferencepb.ModelInferRequest{ModelName: "add_sub",
			RawInputContents: [][]byte{make([]byte, 64), make([]byte, 64)},
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "INT32", Shape: shape},
				addSub("INPUT1")}}
	}
	ones := append(slices.Repeat([]int64{1}, 1999), 16)
	for _, tt := range []struct {
		name string
		in   *inferencepb.ModelInferRequest
	}{
		{"A4 negative dim", shaped(1, -16)},
		{"A4 zero dim", shaped(0, 16)},
		{"A4 2,000 dims", shaped(ones...)},
		{"A4 product wraps at 2^32", shaped(65536, 65536)},
		{"A4 product wraps to 16 at 2^64", shaped(4611686018427387908, 4)},
		{"A4 product wraps at 2^64", shaped(1<<33, 1<<33)},
		{"A12 fewer bytes than the shape", shaped(2, 16)},
		{"A18 input name with NUL", &inferencepb.ModelInferRequest{ModelName: "add_sub",
			RawInputContents: [][]byte{make([]byte, 64), make([]byte, 64)},
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0\x00"),
				addSub("INPUT1")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, err := c.ModelInfer(t.Context(), tt.in); grpcstatus.Code(err) != codes.InvalidArgument {
				t.Errorf("ModelInfer = %.200v, %v; want InvalidArgument", out, err)
			}
			controlAnswers(t, c)
		})
	}
	for name, model := range map[string]string{"A18 model name with NUL": "add_sub\x00",
		"A18 model name of 5,000 characters": strings.Repeat("x", 5000)} {
		t.Run(name, func(t *testing.T) {
			_, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: model})
			if code := grpcstatus.Code(err); code != codes.NotFound && code != codes.InvalidArgument {
				t.Errorf("ModelInfer = %v, want NotFound or InvalidArgument", err)
			}
			controlAnswers(t, c)
		})
	}
	t.Run("A18 model name not UTF-8", func(t *testing.T) {
		message := []byte("\x0a\x02\xff\xfe") // field 1, two bytes
		var reply rawMessage
		err := conn.Invoke(t.Context(), inferencepb.GRPCInferenceService_ModelInfer_FullMethodName,
			(*rawMessage)(&message), &reply, grpc.ForceCodec(rawCodec{}))
		if code := grpcstatus.Code(err); code != codes.InvalidArgument && code != codes.NotFound &&
			code != codes.Internal {
			t.Errorf("ModelInfer = %v, want an error of the client's", err)
		}
		controlAnswers(t, c)
	})
}

// rawMessage is sent and received as it is.
type rawMessage []byte

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*rawMessage), nil }

func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*rawMessage) = append([]byte(nil), b...)
	return nil
}

// A request whose deadline passes in the queue leaves the queue and counts as cancelled. The request before it is
// answered.
func TestA23DeadlineWhileQueued(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel() // it mostly waits
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{t.TempDir()}, Backends: builtin.All()},
		Mode:         engine.ModeExplicit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	conn, _ := start(t, e, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	const config = `{"backend":"identity","max_batch_size":8,` +
		`"instance_group":[{"count":1,"kind":"KIND_CPU"}],"parameters":{"execute_delay_ms":{"string_value":"3000"}},` +
		`"input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[16]}],` +
		`"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[16]}]}`
	if _, err := c.RepositoryModelLoad(t.Context(), &inferencepb.RepositoryModelLoadRequest{ModelName: "slow",
		Parameters: map[string]*inferencepb.ModelRepositoryParameter{
			"config":      {ParameterChoice: &inferencepb.ModelRepositoryParameter_StringParam{StringParam: config}},
			"file:1/none": {ParameterChoice: &inferencepb.ModelRepositoryParameter_BytesParam{BytesParam: []byte("x")}},
		}}); err != nil {
		t.Fatal(err)
	}
	in := &inferencepb.ModelInferRequest{ModelName: "slow",
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "FP32",
			Shape: []int64{1, 16}}},
		RawInputContents: [][]byte{make([]byte, 64)}}
	earlier := make(chan error, 2)
	for range cap(earlier) {
		go func() {
			_, err := c.ModelInfer(context.WithoutCancel(t.Context()), in)
			earlier <- err
		}()
	}
	of := func() (pending int64, failures, success uint64) {
		for _, v := range e.Snapshots(nil) {
			if v.Model == "slow" {
				return v.Pending, v.Failures[stats.Canceled], v.Success.Count
			}
		}
		return -1, 0, 0
	}
	until(t, func() bool { p, _, _ := of(); return p == 1 }) // one runs, one waits
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	if _, err := c.ModelInfer(ctx, in); grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a request behind them: %v, want DeadlineExceeded", err)
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("the deadline of 1 s took %v", d)
	}
	for range cap(earlier) {
		if err := <-earlier; err != nil {
			t.Errorf("a request before it: %v", err)
		}
	}
	until(t, func() bool { p, f, s := of(); return p == 0 && f == 1 && s == 2 })
	if text := log.String(); strings.Contains(text, "panic") {
		t.Errorf("the log says %s", text)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if cond() {
			return
		}
		<-tick.C
	}
	t.Fatal("not within a minute")
}

// TestA24MutatedMessages decodes damaged copies of valid messages. It fails after a panic, and if only one of our
// decoder and the generated decoder accepts a message. The soak run tries 10^6 of them.
func TestA24MutatedMessages(t *testing.T) {
	seed := func(m *inferencepb.ModelInferRequest) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seeds := [][]byte{
		seed(one("id", "1", 5, map[string]*inferencepb.InferParameter{"priority": intParam(1),
			"sequence_id": stringParam("s")})),
		seed(&inferencepb.ModelInferRequest{ModelName: "add_sub",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
			Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0",
				Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(3)}}},
			RawInputContents: [][]byte{make([]byte, 64), make([]byte, 64)}}),
		seed(&inferencepb.ModelInferRequest{ModelName: "add_sub",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{
				{Name: "INPUT0", Datatype: "INT32", Shape: []int64{1, 3},
					Contents: &inferencepb.InferTensorContents{IntContents: []int32{1, -2, 3}}}}}),
	}
	rng := rand.New(rand.NewPCG(2, 24))
	var pool tensor.Pool
	good := 0
	n := corrupt.Count(30_000, 1_000_000)
	for range n {
		b := corrupt.Bytes(rng, seeds[rng.IntN(len(seeds))], seeds[rng.IntN(len(seeds))])
		var in inferencepb.ModelInferRequest
		err := proto.Unmarshal(b, &in)
		if err == nil {
			_, err = reference(&in)
		}
		m := getMessage(&pool, nil)
		decodeMessage(t, m, &pool, b)
		if (m.err != nil) != (err != nil) {
			t.Fatalf("%q: our error %v, the generated decoder's %v", b, m.err, err)
		}
		if m.err == nil {
			good++
			m.r.Release()
		}
		putMessage(m)
	}
	if good == 0 || good == n {
		t.Errorf("%d of %d mutants are good: they try nothing", good, n)
	}
}
