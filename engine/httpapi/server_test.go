package httpapi

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"
)

var le = binary.LittleEndian

// testServer serves a fake engine on a loopback port until the test ends.
type testServer struct {
	*Server
	addr   string
	engine *fakeEngine
}

func serve(tb testing.TB, change ...func(*Options)) *testServer {
	tb.Helper()
	e := newFake()
	o := Options{Engine: e}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			tb.Errorf("Shutdown = %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("Serve = %v", err)
		}
	})
	return &testServer{Server: s, addr: l.Addr().String(), engine: e}
}

// A listener that comes after Shutdown is closed, and that is no error: a server may be told to stop as it starts.
func TestServeAfterShutdown(t *testing.T) {
	s := serve(t)
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
