package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/requests"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func forceCodec(c encoding.Codec) grpc.CallOption { return grpc.ForceCodec(c) }

func one(model, id string, n byte, params map[string]*inferencepb.InferParameter) *inferencepb.ModelInferRequest {
	return &inferencepb.ModelInferRequest{ModelName: model, Id: id, Parameters: params,
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "IN", Datatype: "UINT8",
			Shape: []int64{1}}},
		RawInputContents: [][]byte{{n}}}
}

// short writes a stream's message in one line.
func short(m *inferencepb.ModelStreamInferResponse) string {
	r := m.GetInferResponse()
	var b strings.Builder
	if m.GetErrorMessage() != "" {
		fmt.Fprintf(&b, "error %q ", m.GetErrorMessage())
	}
	fmt.Fprintf(&b, "%s/%s id=%s", r.GetModelName(), r.GetModelVersion(), r.GetId())
	if p, ok := r.GetParameters()["triton_final_response"]; ok {
		fmt.Fprintf(&b, " final=%v", p.GetBoolParam())
	}
	for _, raw := range r.GetRawOutputContents() {
		fmt.Fprintf(&b, " %v", raw)
	}
	return b.String()
}

func TestModelStreamInfer(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	empty := map[string]*inferencepb.InferParameter{"triton_enable_empty_final_response": boolParam(true)}
	for _, tt := range []struct {
		name   string
		in     []*inferencepb.ModelInferRequest
		strict bool
		want   []string
		code   codes.Code
	}{
		{name: "B061 two plain requests", in: []*inferencepb.ModelInferRequest{one("id", "1", 5, nil),
			one("id", "2", 6, nil)},
			want: []string{"id/1 id=1 final=true [5]", "id/1 id=2 final=true [6]"}},
		{name: "no requests"},
		{name: "unknown model", in: []*inferencepb.ModelInferRequest{one("nope", "1", 5, nil)},
			want: []string{`error "Request for unknown model: 'nope' is not found" / id=1`}},
		{name: "error then ok", in: []*inferencepb.ModelInferRequest{one("fails", "1", 5, nil), one("id", "2", 6, nil)},
			want: []string{`error "my error" fails/ id=1 final=true`, "id/1 id=2 final=true [6]"}},
		{name: "C054 an error has the version that the client named", in: []*inferencepb.ModelInferRequest{
			{ModelName: "fails", ModelVersion: "1", Id: "1"}},
			want: []string{`error "my error" fails/1 id=1 final=true`}},
		{name: "C054 an error as the last of 2 responses", in: []*inferencepb.ModelInferRequest{
			one("breaks", "d", 2, empty)},
			want: []string{"breaks/1 id=d final=false [0]", `error "my error" breaks/ id=d final=true`}},
		{name: "C054 an error that more responses follow", in: []*inferencepb.ModelInferRequest{
			one("stumbles", "d", 2, empty)},
			want: []string{`error "my error" stumbles/ id=d final=false`, "stumbles/1 id=d final=false [1]",
				"stumbles/ id=d final=true"}},
		{name: "refused by the decoder", in: []*inferencepb.ModelInferRequest{{ModelName: "id", Id: "x",
			ModelVersion: "-1"}},
			want: []string{
				`error "invalid model version specified '-1' , version should be an integral value > 0" / id=x`}},
		{name: "B062 DV116 refusal in a strict stream", strict: true, code: codes.NotFound,
			in: []*inferencepb.ModelInferRequest{one("nope", "1", 5, nil), one("id", "2", 6, nil)}},
		{name: "decoupled, 2 responses", in: []*inferencepb.ModelInferRequest{one("repeat", "d", 2, nil)},
			want: []string{"repeat/1 id=d final=false [0]", "repeat/1 id=d final=false [1]"}},
		{name: "decoupled, 0 responses", in: []*inferencepb.ModelInferRequest{one("repeat", "d", 0, nil)}},
		{name: "B051 decoupled, 2 responses and the empty final one",
			in: []*inferencepb.ModelInferRequest{one("repeat", "d", 2, empty)},
			want: []string{"repeat/1 id=d final=false [0]", "repeat/1 id=d final=false [1]",
				"repeat/ id=d final=true"}},
		{name: "B051 the empty final one has the version that the client named",
			in: []*inferencepb.ModelInferRequest{
				{ModelName: "stumbles", ModelVersion: "1", Id: "d", Parameters: empty}},
			want: []string{`error "my error" stumbles/1 id=d final=false`, "stumbles/1 id=d final=false [1]",
				"stumbles/1 id=d final=true"}},
		{name: "DV117 plain, with the final flag after its response",
			in:   []*inferencepb.ModelInferRequest{one("two_steps", "1", 5, nil)},
			want: []string{"two_steps/1 id=1 final=true [7]"}},
		{name: "plain with the empty final one", in: []*inferencepb.ModelInferRequest{one("id", "1", 5, empty)},
			want: []string{"id/1 id=1 final=true [5]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.strict {
				ctx = metadata.AppendToOutgoingContext(ctx, "triton_grpc_error", "true")
			}
			stream, err := c.ModelStreamInfer(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range tt.in {
				if err := stream.Send(in); err != nil && !tt.strict {
					t.Fatal(err)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for {
				var m *inferencepb.ModelStreamInferResponse
				if m, err = stream.Recv(); err != nil {
					break
				}
				got = append(got, short(m))
			}
			if err == io.EOF {
				err = nil
			}
			if grpcstatus.Code(err) != tt.code || strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("stream gave\n%s\n%v; want\n%s\n%v", strings.Join(got, "\n"), err, strings.Join(tt.want, "\n"),
					tt.code)
			}
		})
	}
}

func TestModelStreamInferKeepsOrder(t *testing.T) {
	e := newFakeEngine()
	first := make(chan struct{})
	e.models["slow"] = &served{name: "slow", answer: func(r *infer.Request) { <-first; identity(r) }}
	e.models["fast"] = &served{name: "fast", answer: func(r *infer.Request) { identity(r); close(first) }}
	conn, _ := start(t, e, nil)
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"slow", "fast"} { // slow ends only after fast has: both run at once
		if err := stream.Send(one(m, m, 1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"slow", "fast"} {
		m, err := stream.Recv()
		if err != nil || m.GetInferResponse().GetId() != want {
			t.Errorf("Recv = %v, %v; want %s", m, err, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("end of the stream: %v", err)
	}
}

// The client got an error, so the request has failed, also if the last response is none.
func TestAnErrorBeforeTheLastResponseIsRecorded_C054(t *testing.T) {
	log := requests.New()
	recovers := &served{name: "recovers", decoupled: true, answer: func(r *infer.Request) {
		bad, good := r.NewResponse(), r.NewResponse()
		bad.Err = status.New(status.Internal, "my error")
		good.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{1}, nil)
		good.Final = true
		_, _ = r.Respond(bad), r.Respond(good)
	}}
	conn, _ := start(t, newFakeEngine(recovers), func(o *Options) { o.Requests = log })
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err == nil {
		err = stream.Send(one("recovers", "1", 5, nil))
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`error "my error" recovers/ id=1 final=false`, "recovers/1 id=1 final=true [1]"} {
		m, err := stream.Recv()
		if err != nil || short(m) != want {
			t.Fatalf("%v, %v, want %s", m, err, want)
		}
	}
	if log.Await(0) {
		<-log.Half()
	}
	log.Since(0, func(_ int64, r *requests.Record) {
		if r.Outcome != requests.Failed || r.Text != "my error" {
			t.Errorf("the record says %v, %q", r.Outcome, r.Text)
		}
	})
}

// The error ends the call. It is not the client that has left.
func TestAnErrorThatEndsAStrictStreamIsRecorded_C054(t *testing.T) {
	for name, m := range map[string]*served{
		"response": {name: "fails", decoupled: true, answer: func(r *infer.Request) {
			r.Fail(status.New(status.Internal, "my error"))
		}},
		"refusal": {name: "fails", decoupled: true, refuse: status.New(status.Internal, "my error")},
	} {
		t.Run(name, func(t *testing.T) {
			log := requests.New()
			conn, _ := start(t, newFakeEngine(m), func(o *Options) { o.Requests = log })
			ctx := metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true")
			stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
			if err == nil {
				err = stream.Send(one("fails", "1", 5, nil))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); grpcstatus.Code(err) != codes.Internal {
				t.Fatalf("Recv: %v, want Internal", err)
			}
			if log.Await(0) {
				<-log.Half()
			}
			n := 0
			log.Since(0, func(_ int64, r *requests.Record) {
				n++
				if r.Outcome != requests.Failed || r.Text != "my error" {
					t.Errorf("the record says %v, %q", r.Outcome, r.Text)
				}
			})
			if n != 1 {
				t.Errorf("%d records, want 1", n)
			}
		})
	}
}

// lost is a call with one request, whose answers do not reach the client.
type lost struct {
	grpc.ServerStream
	ended   context.Context
	request []byte
}

func (l *lost) RecvMsg(m any) error {
	if l.request == nil {
		<-l.ended.Done()
		return l.ended.Err()
	}
	m.(*message).Receive(tensor.NewBuffer(l.request, func(*tensor.Buffer) {}))
	l.request = nil
	return nil
}

func (l *lost) SendMsg(any) error { return errors.New("the connection is gone") }

func TestAResponseThatCannotBeSentIsOfAClientThatLeft(t *testing.T) {
	log := requests.New()
	e := newFakeEngine(&served{name: "starts", decoupled: true, answer: func(r *infer.Request) {
		_ = r.Respond(r.NewResponse()) // it is not the final one
	}})
	s := newServer(t, Options{Engine: e, Requests: log})
	request, err := proto.Marshal(one("starts", "1", 5, nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.modelStreamInfer(ctx, &lost{ended: ctx, request: request}); err == nil {
		t.Error("the call ends without an error")
	}
	cancel()
	if log.Await(0) {
		<-log.Half()
	}
	log.Since(0, func(_ int64, r *requests.Record) {
		if r.Outcome != requests.Cancelled {
			t.Errorf("the record says %v, %q", r.Outcome, r.Text)
		}
	})
}

func TestRefusalsOfDecoupledModelsKeepTheirOrder_B061(t *testing.T) {
	const n = 500
	e := newFakeEngine(&served{name: "refuses", decoupled: true, refuse: status.New(status.InvalidArg, "no")})
	conn, _ := start(t, e, nil)
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := one("refuses", strconv.Itoa(i), 2, nil)
		if i%2 == 1 { // refused before the engine sees it
			r.ModelVersion = "-1"
		}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		want := fmt.Sprintf(`error "no" / id=%d`, i)
		if i%2 == 1 {
			want = fmt.Sprintf(`error "invalid model version specified '-1' , `+
				`version should be an integral value > 0" / id=%d`, i)
		}
		if m, err := stream.Recv(); err != nil || short(m) != want {
			t.Fatalf("Recv = %v, %v; want %s", m, err, want)
		}
	}
}

// Responses of decoupled models, and errors of requests to them, do not wait for the answers to earlier requests.
func TestDecoupledAnswersPassPlainOnes_B061(t *testing.T) {
	e := newFakeEngine(testModels()...)
	release := make(chan struct{})
	e.models["slow"] = &served{name: "slow", answer: func(r *infer.Request) { <-release; identity(r) }}
	e.models["refusing"] = &served{name: "refusing", decoupled: true, refuse: status.New(status.InvalidArg, "no")}
	conn, _ := start(t, e, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(model, id string, n byte) {
		t.Helper()
		if err := stream.Send(one(model, id, n, nil)); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(want ...string) {
		t.Helper()
		for _, want := range want {
			if m, err := stream.Recv(); err != nil || short(m) != want {
				t.Fatalf("Recv = %v, %v; want %s", m, err, want)
			}
		}
	}
	send("slow", "1", 5)
	send("id", "2", 6)
	send("nope", "3", 7)
	send("repeat", "4", 2)
	receive("repeat/1 id=4 final=false [0]", "repeat/1 id=4 final=false [1]")
	send("refusing", "5", 1)
	receive(`error "no" / id=5`)
	send("repeat", "6", 1)
	receive("repeat/1 id=6 final=false [0]")
	close(release)
	receive("slow/1 id=1 final=true [5]", "id/1 id=2 final=true [6]",
		`error "Request for unknown model: 'nope' is not found" / id=3`)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("end of the stream: %v", err)
	}
}

// A model of sequences answers one request after the other, each with two responses.
func TestDecoupledResponsesKeepTheirOrderOnAStream_C041(t *testing.T) {
	const n = 100
	came := make(chan *infer.Request, n)
	e := newFakeEngine(&served{name: "sequence", decoupled: true,
		answer: func(r *infer.Request) { came <- r.Retain() }})
	conn, _ := start(t, e, nil)
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := stream.Send(one("sequence", "", 2, nil)); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]*infer.Request, n)
	for i := range all {
		all[i] = <-came
	}
	go func() {
		for i, r := range all {
			for _, final := range []bool{false, true} {
				resp := r.NewResponse()
				resp.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{byte(i)}, nil)
				resp.Final = final
				_ = r.Respond(resp)
			}
			r.Release()
		}
	}()
	for i := range n {
		for _, final := range []bool{false, true} {
			want := fmt.Sprintf("sequence/1 id= final=%v [%d]", final, i)
			if m, err := stream.Recv(); err != nil || short(m) != want {
				t.Fatalf("Recv = %v, %v; want %s", m, err, want)
			}
		}
	}
}

// The model that takes the request is another version than the one whose configuration was read.
func TestAModelThatIsReloadedMeanwhileAnswersOnAStream_C041(t *testing.T) {
	for name, decoupled := range map[string]bool{"it was decoupled": true, "it becomes decoupled": false} {
		t.Run(name, func(t *testing.T) {
			m := &served{name: "turned", decoupled: decoupled, answer: func(r *infer.Request) {
				resp := r.NewResponse()
				resp.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{1}, nil)
				resp.Final = true
				_ = r.Respond(resp)
			}}
			e := newFakeEngine(m)
			e.seen = func(*infer.Request) { m.decoupled = !decoupled }
			conn, _ := start(t, e, nil)
			stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
			if err == nil {
				err = stream.Send(one("turned", "1", 1, nil))
			}
			if err == nil {
				err = stream.CloseSend()
			}
			if err != nil {
				t.Fatal(err)
			}
			if m, err := stream.Recv(); err != nil || short(m) != "turned/1 id=1 final=true [1]" {
				t.Errorf("Recv = %v, %v", m, err)
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Errorf("end of the stream: %v", err)
			}
		})
	}
}

// Unanswered requests to decoupled models count towards streamDepth, also behind one that is not decoupled.
func TestStreamDepthBoundsDecoupledRequests_B061(t *testing.T) {
	e := newFakeEngine()
	begun, release, end := make(chan struct{}, streamDepth+8), make(chan struct{}), make(chan struct{})
	hold := func(r *infer.Request) { begun <- struct{}{}; <-release; repeat(r) }
	e.models["slow"] = &served{name: "slow", answer: func(r *infer.Request) { <-end; identity(r) }}
	e.models["held"] = &served{name: "held", decoupled: true, answer: hold}
	conn, _ := start(t, e, nil)
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		err := stream.Send(one("slow", "", 1, nil))
		for i := 0; i < streamDepth+7 && err == nil; i++ {
			err = stream.Send(one("held", "", 1, nil))
		}
		sent <- errors.Join(err, stream.CloseSend())
	}()
	for range streamDepth - 1 {
		<-begun
	}
	n := 0
	for ; n < 7; n++ { // each answer lets one more request begin
		if more := len(begun); more != 0 {
			t.Fatalf("%d requests above the limit were begun", more)
		}
		release <- struct{}{}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	close(release)
	close(end)
	for _, err = stream.Recv(); err == nil; _, err = stream.Recv() {
		n++
	}
	if sent := <-sent; err != io.EOF || sent != nil || n != streamDepth+8 {
		t.Errorf("%d answers, then %v; the client's error is %v; want %d", n, err, sent, streamDepth+8)
	}
}

func TestModelStreamInferCancelReachesEveryRequest(t *testing.T) {
	t.Run("B072 stream", func(t *testing.T) {
		e := newFakeEngine()
		came, left := make(chan struct{}, 4), make(chan struct{}, 4)
		wait := func(r *infer.Request) {
			came <- struct{}{}
			<-r.Done()
			left <- struct{}{}
			r.Fail(context.Canceled)
		}
		e.models["plain"] = &served{name: "plain", answer: wait}
		e.models["decoupled"] = &served{name: "decoupled", decoupled: true, answer: wait}
		conn, _ := start(t, e, nil)
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{"decoupled", "plain", "plain", "decoupled"} {
			if err := stream.Send(one(m, m, 1, nil)); err != nil {
				t.Fatal(err)
			}
			<-came
		}
		cancel()
		for range 4 {
			<-left
		}
	})
}

func TestShutdownEndsIdleStreams(t *testing.T) {
	conn, s := start(t, newFakeEngine(testModels()...), nil)
	stream, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(one("id", "1", 5, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := stream.Recv(); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v, want Unavailable", err)
	}
}

func TestNoGoroutineIsLeft_I003(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("serve", func(t *testing.T) {
		conn, _ := start(t, newFakeEngine(testModels()...), nil)
		c := inferencepb.NewGRPCInferenceServiceClient(conn)
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := c.ModelStreamInfer(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(one("repeat", "1", 200, nil))
			_ = stream.Send(one("never", "1", 5, nil))
			_, _ = stream.Recv()
			cancel()
		}
		if _, err := c.ModelInfer(t.Context(), one("id", "1", 5, nil)); err != nil {
			t.Error(err)
		}
	})
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		b := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, n, b[:runtime.Stack(b, true)])
	}
}

// A response that is larger than the client accepts is an error of the client, not of the server.
func TestA15ResponseOverTheClientsLimit(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	in := &inferencepb.ModelInferRequest{ModelName: "id", RawInputContents: [][]byte{make([]byte, 400_000)},
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{fp32(100_000)}}
	for range 20 {
		if _, err := c.ModelInfer(t.Context(), in,
			grpc.MaxCallRecvMsgSize(10_000)); grpcstatus.Code(err) != codes.ResourceExhausted {
			t.Fatalf("ModelInfer = %v, want ResourceExhausted", err)
		}
	}
	if out, err := c.ModelInfer(t.Context(), in); err != nil || len(out.GetRawOutputContents()[0]) != 400_000 {
		t.Errorf("ModelInfer after it: %v, want 400,000 bytes", err)
	}
}
