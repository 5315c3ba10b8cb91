package httpapi

import (
	"context"
	"encoding/binary"
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
