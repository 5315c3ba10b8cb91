package grpcapi

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/stats"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

func TestReflection_B069(t *testing.T) {
	ask := func(t *testing.T, conn *grpc.ClientConn,
		m *reflectionv1.ServerReflectionRequest) (*reflectionv1.ServerReflectionResponse, error) {
		t.Helper()
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(m) // Recv returns why it fails
		return stream.Recv()
	}
	list := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	t.Run("off", func(t *testing.T) {
		conn, _ := start(t, newFakeEngine(), nil)
		if _, err := ask(t, conn, list); grpcstatus.Code(err) != codes.Unimplemented {
			t.Errorf("without the option: %v, want Unimplemented", err)
		}
	})
	t.Run("on", func(t *testing.T) {
		conn, _ := start(t, newFakeEngine(), func(o *Options) { o.Reflection = true })
		got, err := ask(t, conn, list)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range got.GetListServicesResponse().GetService() {
			names = append(names, s.GetName())
		}
		if !slices.Contains(names, inferenceService) || !slices.Contains(names, healthService) || len(names) != 4 {
			t.Errorf("services %v", names)
		}
		symbol := &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "inference.ModelInferRequest"}
		got, err = ask(t, conn, &reflectionv1.ServerReflectionRequest{MessageRequest: symbol})
		if err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("no file of ModelInferRequest: %v, %v", got, err)
		}
		symbol.FileContainingSymbol = healthService
		got, err = ask(t, conn, &reflectionv1.ServerReflectionRequest{MessageRequest: symbol})
		if err != nil {
			t.Fatal(err)
		}
		var health descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(got.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &health); err != nil {
			t.Fatal(err)
		}
		if m := health.GetService()[0].GetMethod(); len(m) != 1 || m[0].GetName() != "Check" {
			t.Errorf("methods of the health service: %v, want Check, which is all that is served", m)
		}
	})
	t.Run("guarded", func(t *testing.T) {
		conn, _ := start(t, newFakeEngine(), func(o *Options) {
			o.Reflection = true
			o.Authorize = func(context.Context, string) error {
				return grpcstatus.Error(codes.Unauthenticated,
					"no token")
			}
		})
		if _, err := ask(t, conn, list); grpcstatus.Code(err) != codes.Unauthenticated {
			t.Errorf("without a token: %v", err)
		}
	})
}

// payloads records the size of the last message on the wire.
type payloads struct{ compressed atomic.Bool }

func (p *payloads) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (p *payloads) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (p *payloads) HandleConn(context.Context, stats.ConnStats)                       {}
func (p *payloads) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		p.compressed.Store(in.CompressedLength < in.Length)
	}
}

// Responses of inferences are compressed for clients that accept it. Requests may always be compressed.
func TestCompression_B073(t *testing.T) {
	request := &inferencepb.ModelInferRequest{ModelName: "id",
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "UINT8",
			Shape: []int64{100000}}},
		RawInputContents: [][]byte{make([]byte, 100000)}}
	for _, on := range []bool{false, true} {
		old, _ := start(t, newFakeEngine(testModels()...), func(o *Options) { o.CompressResponses = on })
		seen := &payloads{}
		conn, err := grpc.NewClient(old.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStatsHandler(seen))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c := inferencepb.NewGRPCInferenceServiceClient(conn)
		got, err := c.ModelInfer(t.Context(), request, grpc.UseCompressor(gzip.Name))
		if err != nil || len(got.GetRawOutputContents()[0]) != 100000 {
			t.Fatalf("compressed request: %v", err)
		}
		// The library compresses the response to a compressed request, so a plain request shows what the option does.
		if _, err = c.ModelInfer(t.Context(), request); err != nil || seen.compressed.Load() != on {
			t.Errorf("with compression %v a plain request is answered compressed: %v, %v", on, seen.compressed.Load(),
				err)
		}
		stream, err := c.ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		m, err := stream.Recv()
		if err != nil || len(m.GetInferResponse().GetRawOutputContents()[0]) != 100000 || seen.compressed.Load() != on {
			t.Errorf("with compression %v a stream is answered compressed: %v, %v", on, seen.compressed.Load(), err)
		}
		_ = stream.CloseSend()
	}
}

// A server that stops finishes running calls and refuses new requests on open streams.
func TestGracefulShutdown_B077(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &served{name: "slow", answer: func(r *infer.Request) {
		once.Do(func() { close(begun) })
		<-finish
		resp := r.NewResponse()
		resp.Final = true
		_ = r.Respond(resp)
	}}
	conn, s := start(t, newFakeEngine(append(testModels(), slow)...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(one("id", "1", 1, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() {
		_, err := c.ModelInfer(t.Context(), one("slow", "", 1, nil))
		running <- err
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	_, err = stream.Recv()
	if st := grpcstatus.Convert(err); st.Code() != codes.Unavailable ||
		st.Message() != "GRPC server is shutting down and has stopped accepting new requests." {
		t.Errorf("the open stream ends with %v", err)
	}
	if _, err := c.ModelInfer(t.Context(), one("id", "", 1, nil)); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("a new call gets %v, want Unavailable", err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown = %v while a call runs", err)
	default:
	}
	close(finish)
	if err := <-running; err != nil {
		t.Errorf("the running call got %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}

// A server that is shut down before it serves has not failed.
func TestServeAfterShutdownIsNoFailure(t *testing.T) {
	s := newServer(t, Options{Engine: newFakeEngine()})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("Serve after Shutdown = %v, want nil", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing the listener again: %v, want that it is closed", err)
	}
}
