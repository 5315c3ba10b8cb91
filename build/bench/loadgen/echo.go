package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"nereid/engine/grpcapi/h2"
	buffers "nereid/engine/tensor"
)

// The echo servers return each request's body or message unread. They cost what moving the bytes costs: one over the
// HTTP library that the server uses, one over its own HTTP/2, and one over grpc-go.

// serveEcho serves on addr until ctx ends. library is "http", "grpc" (the server's own HTTP/2) or "grpc-go".
func serveEcho(ctx context.Context, addr, library string) error {
	s, err := newEcho(library)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // as the server does
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // which ends Serve
	if err := s.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("echo on %s: %w", addr, err)
	}
	return nil
}

type echoServer interface{ Serve(l net.Listener) error }

func newEcho(library string) (echoServer, error) {
	switch library {
	case "http":
		return &fasthttp.Server{
			Handler: func(c *fasthttp.RequestCtx) {
				c.SetContentType("application/octet-stream")
				c.Response.SetBodyRaw(c.PostBody())
			},
			ReadBufferSize: 8 << 10, MaxRequestBodySize: 1 << 30, NoDefaultServerHeader: true, NoDefaultDate: true,
		}, nil
	case "grpc":
		s, err := h2.New(h2.Options{Codec: echoCodec{}})
		if err == nil {
			s.RegisterService(&echoService, nil)
		}
		return s, err
	case "grpc-go":
		s := grpc.NewServer(grpc.ForceServerCodecV2(echoCodec{}), grpc.MaxRecvMsgSize(math.MaxInt32),
			grpc.MaxSendMsgSize(math.MaxInt32))
		s.RegisterService(&echoService, nil)
		return s, nil
	}
	return nil, fmt.Errorf("-i %q: want http, grpc or grpc-go", library)
}

var echoService = grpc.ServiceDesc{ServiceName: "inference.GRPCInferenceService", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "ModelInfer", Handler: func(_ any, stream grpc.ServerStream) error {
		var m echoMessage
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		return stream.SendMsg(&m)
	}}}}

// echoMessage holds a received message without a copy.
type echoMessage struct{ data mem.BufferSlice }

// Receive takes a message of package h2.
func (m *echoMessage) Receive(b *buffers.Buffer) {
	bytes := b.Bytes()
	m.data = mem.BufferSlice{mem.NewBuffer(&bytes, releaser{b})}
}

// releaser releases a received message once it has been sent.
type releaser struct{ b *buffers.Buffer }

func (releaser) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (r releaser) Put(*[]byte)     { r.b.Release() }

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
