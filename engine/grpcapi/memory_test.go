package grpcapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// TestOutputMemoryIsReleased checks that the memory of a response's outputs is released once, when the response was
// sent or the client has left.
func TestOutputMemoryIsReleased(t *testing.T) {
	const size = 4 << 20
	freed := make(chan struct{}, 8)
	wait := make(chan struct{})
	lend := func(r *infer.Request) *infer.Response {
		data := bytes.Repeat([]byte{7}, size)
		resp := r.NewResponse()
		resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{size}, data, tensor.NewBuffer(data, func(b *tensor.Buffer) {
			clear(b.Bytes()) // a reader of released memory would see zeros
			freed <- struct{}{}
		}))
		resp.Final = true
		return resp
	}
	e := newFakeEngine(
		&served{name: "lend", answer: func(r *infer.Request) { _ = r.Respond(lend(r)) }},
		&served{name: "late", answer: func(r *infer.Request) {
			wait <- struct{}{}
			<-r.Done()
			_ = r.Respond(lend(r))
		}},
	)
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	out, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "lend"})
	if err != nil || bytes.Count(out.GetRawOutputContents()[0], []byte{7}) != size {
		t.Errorf("ModelInfer: %v, or other bytes than the model's", err)
	}
	<-freed

	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-wait; cancel() }()
	if _, err := c.ModelInfer(ctx,
		&inferencepb.ModelInferRequest{ModelName: "late"}); grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("ModelInfer = %v, want Canceled", err)
	}
	<-freed

	// The client reads only the headers of a response and leaves.
	ctx, cancel = context.WithCancel(t.Context())
	stream, err := c.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&inferencepb.ModelInferRequest{ModelName: "lend"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-freed // at least the first, which was being written; the others may not have entered the engine
}

// TestInputMemoryIsReleased checks that the memory of a received message is kept until its request is released.
func TestInputMemoryIsReleased(t *testing.T) {
	body, err := proto.Marshal(&inferencepb.ModelInferRequest{ModelName: "m",
		RawInputContents: [][]byte{bytes.Repeat([]byte{7}, 4000)},
		Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{fp32(1000)}})
	if err != nil {
		t.Fatal(err)
	}
	var pool tensor.Pool
	freed := 0
	m := getMessage(&pool, nil)
	m.Receive(tensor.NewBuffer(body, func(*tensor.Buffer) { freed++ }))
	if m.err != nil || freed != 0 {
		t.Fatalf("error %v, memory freed %d times while the request lives", m.err, freed)
	}
	at := bytes.Index(body, bytes.Repeat([]byte{7}, 4000))
	if in := m.r.Inputs[0]; in.Buf == nil || len(in.Data) != 4000 || &in.Data[0] != &body[at] {
		t.Error("the input is no view of the received memory")
	}
	m.r.Release()
	if freed != 1 {
		t.Errorf("memory freed %d times, want once", freed)
	}
}

func TestLimits(t *testing.T) {
	many := func(n int, field func(*inferencepb.ModelInferRequest, int)) *inferencepb.ModelInferRequest {
		in := &inferencepb.ModelInferRequest{}
		for i := range n {
			field(in, i)
		}
		return in
	}
	for _, tt := range []struct {
		name string
		in   *inferencepb.ModelInferRequest
	}{
		{"inputs", many(maxTensors+1, func(r *inferencepb.ModelInferRequest, _ int) {
			r.Inputs = append(r.Inputs, &inferencepb.ModelInferRequest_InferInputTensor{})
		})},
		{"outputs", many(maxTensors+1, func(r *inferencepb.ModelInferRequest, _ int) {
			r.Outputs = append(r.Outputs, &inferencepb.ModelInferRequest_InferRequestedOutputTensor{})
		})},
		{"raw contents", many(maxTensors+1, func(r *inferencepb.ModelInferRequest,
			_ int) {
			r.RawInputContents = append(r.RawInputContents, nil)
		})},
		{"parameters", many(maxParameters+1, func(r *inferencepb.ModelInferRequest, i int) {
			if i == 0 {
				r.Parameters = map[string]*inferencepb.InferParameter{}
			}
			r.Parameters[strconv.Itoa(i)] = intParam(1)
		})},
		{"dimensions", &inferencepb.ModelInferRequest{RawInputContents: [][]byte{nil},
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Shape: make([]int64, maxDims+1)}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := proto.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			var pool tensor.Pool
			m := getMessage(&pool, nil)
			decodeMessage(t, m, &pool, b)
			if m.err == nil || status.CodeOf(m.err) != status.InvalidArg {
				t.Errorf("error %v, want InvalidArg", m.err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	plain, _ := start(t, newFakeEngine(testModels()...), func(o *Options) {
		o.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	})
	if _, err := inferencepb.NewGRPCInferenceServiceClient(plain).ServerLive(t.Context(),
		&inferencepb.ServerLiveRequest{}); err == nil {
		t.Error("a call without TLS passes")
	}
	conn, err := grpc.NewClient(plain.Target(), grpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "example.com"})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := inferencepb.NewGRPCInferenceServiceClient(conn).ServerLive(t.Context(),
		&inferencepb.ServerLiveRequest{}); err != nil {
		t.Errorf("a call over TLS: %v", err)
	}
}
