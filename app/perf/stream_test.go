package perf

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
)

// deaf is a server that reads nothing from its streams.
type deaf struct {
	inferencepb.UnimplementedGRPCInferenceServiceServer
	opened chan struct{}
}

func (d *deaf) ModelStreamInfer(s grpc.BidiStreamingServer[inferencepb.ModelInferRequest,
	inferencepb.ModelStreamInferResponse]) error {
	close(d.opened)
	<-s.Context().Done()
	return nil
}

func TestACancelledRequestDoesNotWaitForAServerThatReadsNothing(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, d := grpc.NewServer(), &deaf{opened: make(chan struct{})}
	inferencepb.RegisterGRPCInferenceServiceServer(server, d)
	go func() { _ = server.Serve(lis) }() // it ends with Stop
	defer server.Stop()
	c, err := client.NewGRPC(lis.Addr().String(), client.GRPCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStream(c, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for _, id := range []string{"1", "2"} { // the second one waits until the first one is sent
		r := &Request{Request: client.Request{Model: "m", ID: id,
			Inputs: []client.Tensor{client.Of("I", make([]byte, 8<<20))}}}
		go func() { ended <- s.Infer(ctx, 0, r, &Call{}) }()
	}
	<-d.opened
	cancel()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
}
