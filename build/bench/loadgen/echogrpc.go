package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"nereid/engine/grpcapi/h2"
	buffers "nereid/engine/tensor"
)

// The echo over gRPC answers every ModelInfer with the message that it came with, which it does not look at: by our own
// HTTP/2, or by grpc-go's server.

// echoMessage holds a message as it came, without a copy.
type echoMessage struct{ data mem.BufferSlice }

// Receive takes a message of our own HTTP/2.
func (m *echoMessage) Receive(b *buffers.Buffer) {
	bytes := b.Bytes()
	m.data = mem.BufferSlice{mem.NewBuffer(&bytes, releasing{b})}
}

// releasing lets go of a received message once it is sent.
type releasing struct{ b *buffers.Buffer }

func (releasing) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (r releasing) Put(*[]byte)     { r.b.Release() }

// echoCodec passes messages through.
type echoCodec struct{}

func (echoCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*echoMessage)
	if !ok {
		return nil, fmt.Errorf("echoCodec: cannot send a %T", v)
	}
	return m.data, nil
}

func (echoCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*echoMessage)
	if !ok {
		return fmt.Errorf("echoCodec: cannot receive into a %T", v)
	}
	data.Ref()
	m.data = data
	return nil
}

func (echoCodec) Name() string { return "proto" }

var echoService = grpc.ServiceDesc{ServiceName: "inference.GRPCInferenceService", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "ModelInfer", Handler: func(_ any, stream grpc.ServerStream) error {
		var m echoMessage
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		return stream.SendMsg(&m)
	}}}}

// serveEchoGRPC answers on addr until ctx ends, as serveEcho does. library is "grpc" (our own HTTP/2) or "grpc-go".
func serveEchoGRPC(ctx context.Context, addr, library string) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	var s interface {
		RegisterService(d *grpc.ServiceDesc, impl any)
		Serve(l net.Listener) error
		Stop()
	}
	switch library {
	case "grpc":
		if s, err = h2.New(h2.Options{Codec: echoCodec{}}); err != nil {
			return err
		}
	case "grpc-go":
		s = grpc.NewServer(grpc.ForceServerCodecV2(echoCodec{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))
	default:
		return fmt.Errorf("-i %q: want http, grpc or grpc-go", library)
	}
	s.RegisterService(&echoService, nil)
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("echo on %s: %w", addr, err)
	}
	return nil
}
