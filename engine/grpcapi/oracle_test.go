package grpcapi

import (
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"

	"nereid/engine/grpcapi/h2"
	"nereid/engine/system/socket"
	"nereid/engine/tensor"
)

// The tests run over package h2, which the product uses, and over grpc-go's server as the oracle. A client must see the
// same from both.

// overGRPCGo reports whether the servers that newServer makes use grpc-go's server in place of package h2.
var overGRPCGo bool

// TestMain runs every test over each transport.
func TestMain(m *testing.M) {
	encoding.RegisterCompressor(zlibCompressor{}) // for the clients
	code := 0
	for _, overGRPCGo = range []bool{false, true} {
		fmt.Println("over grpc-go's server:", overGRPCGo)
		code = max(code, m.Run())
	}
	os.Exit(code)
}

// newServer makes a server over the transport under test.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if overGRPCGo {
		o.MaxReceiveBytes = cmp.Or(o.MaxReceiveBytes, math.MaxInt32)
		s.transport = newGRPCGo(s, &o)
	}
	return s
}

// grpcGo is grpc-go's server as a transport.
type grpcGo struct {
	*grpc.Server
	conns *openConns
}

func newGRPCGo(s *Server, o *Options) grpcGo {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(grpcGoCodec{newCodec(), &s.pool}),
		grpc.MaxRecvMsgSize(o.MaxReceiveBytes),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(4096),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveParams(o.Keepalive),
		grpc.KeepaliveEnforcementPolicy(o.Enforcement),
		grpc.WaitForHandlers(true),
		grpc.RPCDecompressor(deflate{limit: o.MaxReceiveBytes}), //nolint:staticcheck // the successor is global
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	conns := &openConns{}
	t := grpcGo{grpc.NewServer(append(opts, grpc.StatsHandler(conns))...), conns}
	s.register(t, o.Reflection)
	return t
}

// RegisterService is grpc-go's, for handlers of streams that can be compressed.
func (g grpcGo) RegisterService(d *grpc.ServiceDesc, impl any) {
	for i := range d.Streams {
		h := d.Streams[i].Handler
		d.Streams[i].Handler = func(srv any, st grpc.ServerStream) error { return h(srv, compressible{st}) }
	}
	g.Server.RegisterService(d, impl)
}

// Serve is grpc-go's, with the error of package h2 for a server that has been stopped.
func (g grpcGo) Serve(l net.Listener) error {
	err := g.Server.Serve(connListener{l, g.conns})
	if errors.Is(err, grpc.ErrServerStopped) {
		return h2.ErrStopped
	}
	return err
}

// openConns puts the connection of a call into its context, as package h2 does.
type openConns struct {
	all sync.Map // net.Conn by its remote address
}

func (o *openConns) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	if c, ok := o.all.Load(info.RemoteAddr.String()); ok {
		return socket.NewContext(ctx, c.(net.Conn))
	}
	return ctx
}

func (*openConns) HandleConn(context.Context, stats.ConnStats)                     {}
func (*openConns) HandleRPC(context.Context, stats.RPCStats)                       {}
func (*openConns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

type connListener struct {
	net.Listener
	conns *openConns
}

func (l connListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.conns.all.Store(c.RemoteAddr().String(), c)
	}
	return c, err
}

// grpcGoCodec passes a received request in one buffer, as package h2 does.
type grpcGoCodec struct {
	codec
	pool *tensor.Pool
}

func (c grpcGoCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return c.codec.Unmarshal(data, v)
	}
	b := c.pool.Get(data.Len())
	data.CopyTo(b.Bytes())
	m.Receive(b)
	return nil
}

// compressible is a call whose answers can be compressed, as those of package h2.
type compressible struct{ grpc.ServerStream }

func (c compressible) Context() context.Context {
	ctx := c.ServerStream.Context()
	return grpc.NewContextWithServerTransportStream(ctx,
		compressibleTransport{grpc.ServerTransportStreamFromContext(ctx), ctx})
}

type compressibleTransport struct {
	grpc.ServerTransportStream
	ctx context.Context
}

func (c compressibleTransport) Compress() bool {
	return grpc.SetSendCompressor(c.ctx, gzip.Name) == nil
}

// deflate reads requests with grpc-encoding "deflate", which is zlib's format. grpc-go itself knows gzip only.
type deflate struct{ limit int }

func (deflate) Type() string { return "deflate" }

// Do returns the content of a compressed message, or its first limit+1 bytes, which grpc-go refuses as too large.
func (d deflate) Do(r io.Reader) ([]byte, error) {
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	return io.ReadAll(io.LimitReader(z, int64(d.limit)+1))
}

// zlibCompressor is the client's side of grpc-encoding "deflate".
type zlibCompressor struct{}

func (zlibCompressor) Name() string                                 { return "deflate" }
func (zlibCompressor) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }
func (zlibCompressor) Decompress(r io.Reader) (io.Reader, error)    { return zlib.NewReader(r) }

// decodeMessage decodes an encoded request, which lies in one or several pieces, into m.
func decodeMessage(t testing.TB, m *message, pool *tensor.Pool, pieces ...[]byte) {
	t.Helper()
	var data mem.BufferSlice
	for _, p := range pieces {
		data = append(data, mem.SliceBuffer(p))
	}
	if err := (grpcGoCodec{newCodec(), pool}).Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
}
