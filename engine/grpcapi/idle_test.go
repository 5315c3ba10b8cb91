package grpcapi

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"nereid/engine/inferencepb"
)

// TestA21IdleStreams: with 1,000 idle streams open, a new request is answered within 50 ms.
func TestA21IdleStreams(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	streams := make([]grpc.BidiStreamingClient[inferencepb.ModelInferRequest, inferencepb.ModelStreamInferResponse],
		1000)
	for i := range streams {
		s, err := c.ModelStreamInfer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		streams[i] = s
		if err := s.Send(one("id", "1", byte(i), nil)); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || m.GetErrorMessage() != "" {
			t.Fatalf("stream %d: %v, %v", i, m, err)
		}
	}
	var took []time.Duration
	for i := range 51 {
		begin := time.Now()
		if _, err := c.ModelInfer(t.Context(), one("id", "1", byte(i), nil)); err != nil {
			t.Fatal(err)
		}
		s := streams[i*19]
		if err := s.Send(one("id", "2", byte(i), nil)); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || m.GetInferResponse().GetId() != "2" {
			t.Fatalf("stream %d: %v, %v", i*19, m, err)
		}
		took = append(took, time.Since(begin)/2)
	}
	slices.Sort(took)
	t.Logf("a request beside 1,000 idle streams: median %v, at most %v", took[25], took[50])
	limit := 5 * time.Second // the machine may be busy
	if os.Getenv("NEREID_SOAK") == "full" {
		limit = 50 * time.Millisecond
	}
	if took[25] > limit {
		t.Errorf("a request beside 1,000 idle streams takes %v, want at most %v", took[25], limit)
	}
}

// TestA21IdleConnectionMemory limits the memory that an idle gRPC connection needs. The clients use single frames, so
// that nearly all of the memory is the server's.
func TestA21IdleConnectionMemory(t *testing.T) {
	s := newServer(t, Options{Engine: newFakeEngine(testModels()...)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	const n, most = 500, 100_000
	before := used()
	conns := make([]net.Conn, n)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conns[i], http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		f := http2.NewFramer(conns[i], conns[i])
		if err = f.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		if _, err = f.ReadFrame(); err != nil { // the server's settings: it serves
			t.Fatal(err)
		}
	}
	each := (int64(used()) - int64(before)) / n
	t.Logf("an idle gRPC connection costs %d bytes", each)
	if each > most {
		t.Errorf("an idle gRPC connection costs %d bytes, want at most %d", each, most)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
