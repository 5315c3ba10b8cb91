package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine"
	"nereid/engine/grpcapi/h2"
	"nereid/engine/infer"
	pb "nereid/engine/inferencepb"
	"nereid/engine/refusals"
	"nereid/engine/requests"
	"nereid/engine/restrict"
	"nereid/engine/shm"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// Engine is what the services need of the engine. Errors carry a status code and the text that clients see.
type Engine interface {
	// Infer admits r. On nil every response comes through r.Next. The caller keeps its reference in both cases.
	Infer(ctx context.Context, r *infer.Request) error
	Live() bool
	Ready() bool
	ServerMetadata() *pb.ServerMetadataResponse
	ModelReady(name string, version int64) (bool, error)
	ModelMetadata(name string, version int64) (*pb.ModelMetadataResponse, error)
	ModelConfig(name string, version int64) (*pb.ModelConfig, error)
	ModelStatistics(name string, version int64) (*pb.ModelStatisticsResponse, error)
	RepositoryIndex(ready bool) []*pb.RepositoryIndexResponse_ModelIndex
	LoadModel(ctx context.Context, name string, p engine.LoadParameters) error
	UnloadModel(ctx context.Context, name string, dependents bool) error
	UnloadVersion(ctx context.Context, name string, version int64) error
	// SharedMemory returns the regions of memory that clients share with the server; nil: they cannot.
	SharedMemory() *shm.Registry
}

// Options configure a Server. Only Engine is required.
type Options struct {
	Engine Engine
	Log    *slog.Logger // nil: slog.Default
	// Trace samples inferences and holds the settings of the trace extension; nil: there is no tracing.
	Trace *trace.Tracer
	// LogControl holds the settings of the logging extension; nil: there is none.
	LogControl engine.LogControl

	// Authorize, if not nil, is called before a call's message is read, and returns nil to allow the call. method is
	// the full name, "/inference.GRPCInferenceService/ModelInfer"; metadata.ValueFromIncomingContext and
	// peer.FromContext read ctx. A gRPC status is sent to the client as it is, other errors with their code and text.
	Authorize func(ctx context.Context, method string) error

	// Refusals counts refused calls, and refused requests of streams; nil: they are not counted.
	Refusals *refusals.Log
	// Requests records inferences and refused calls; nil: they are not recorded.
	Requests *requests.Log

	// Restricted are the groups of calls that need metadata: Triton's --grpc-restricted-protocol. nil: none.
	Restricted *restrict.Rules
	// ForwardMetadata, if not nil, matches the names of the metadata that become string parameters of the inference
	// requests: Triton's --grpc-header-forward-pattern.
	ForwardMetadata *regexp.Regexp

	// Reflection serves the reflection service, from which tools read the services' messages.
	Reflection bool
	// CompressResponses compresses the responses of inferences for clients that accept gzip or deflate:
	// Triton's --grpc-infer-response-compression-level.
	CompressResponses bool

	TLS *tls.Config // nil: plain text

	// MaxReceiveBytes bounds one received message. 0: 2 GiB - 1, as in Triton.
	MaxReceiveBytes int
	// MaxInflatedBytes bounds the content of a compressed message in addition. 0: 256 MiB.
	MaxInflatedBytes int
	// MaxConnections bounds the connections; others are closed at once. 0: 65536.
	MaxConnections int
	// Memory bounds the requests and responses under way; nil: no bound.
	Memory *tensor.Budget
	// Keepalive is Triton's --grpc-keepalive-time, -timeout and --grpc-max-connection-age, -grace.
	// Zero fields: 2 h, 20 s, no bound, no bound.
	Keepalive keepalive.ServerParameters
	// Enforcement is --grpc-http2-min-recv-ping-interval-without-data and --grpc-keepalive-permit-without-calls.
	// Zero fields: 5 minutes, no.
	Enforcement keepalive.EnforcementPolicy
}

// transport carries the calls: *h2.Server. The tests also run over grpc-go's server.
type transport interface {
	grpc.ServiceRegistrar
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// Server answers gRPC calls. Its methods are safe for concurrent use.
type Server struct {
	engine     Engine
	regions    *shm.Registry
	log        *slog.Logger
	authorize  func(ctx context.Context, method string) error
	trace      *trace.Tracer
	logControl engine.LogControl
	refusals   *refusals.Log
	requests   *requests.Log
	restrict   *restrict.Rules
	forwards   *regexp.Regexp
	compress   bool
	pool       tensor.Pool
	transport  transport

	closing   chan struct{} // closed when Shutdown begins
	closeOnce sync.Once
	receivers sync.WaitGroup // goroutines of streams that may end after their handler
}

// New returns a server without listeners.
func New(o Options) (*Server, error) {
	if o.Engine == nil {
		return nil, errors.New("grpcapi: Options.Engine is nil")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Server{
		engine: o.Engine, regions: o.Engine.SharedMemory(), log: o.Log, authorize: o.Authorize, restrict: o.Restricted,
		forwards: o.ForwardMetadata, compress: o.CompressResponses, trace: o.Trace, logControl: o.LogControl,
		refusals: o.Refusals, requests: o.Requests, closing: make(chan struct{}), pool: tensor.Pool{Budget: o.Memory},
	}
	t, err := h2.New(h2.Options{
		Codec: newCodec(), Log: o.Log, TLS: o.TLS, Pool: &s.pool, MaxReceiveBytes: o.MaxReceiveBytes,
		MaxInflatedBytes: o.MaxInflatedBytes, MaxConnections: o.MaxConnections,
		Keepalive: o.Keepalive, Enforcement: o.Enforcement, Failed: s.refused,
	})
	if err != nil {
		return nil, err
	}
	s.register(t, o.Reflection)
	if err := t.HandleInline(inferMethod, inlineInfer{s, methodGroup(inferMethod)}); err != nil {
		return nil, err
	}
	s.transport = t
	return s, nil
}

// register adds the services to t.
func (s *Server) register(t transport, reflect bool) {
	services := s.services()
	if reflect {
		services = append(services, s.reflection()...)
	}
	for _, d := range services {
		t.RegisterService(d, nil)
	}
}

// Serve accepts connections on l until Shutdown, and closes l. It may be called for several listeners. It returns nil
// after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	err := s.transport.Serve(l)
	if err != nil && !errors.Is(err, h2.ErrStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown closes the listeners and waits for the running calls. Streams end once the requests that they have received
// are answered. If ctx ends first, the calls are cancelled, and ctx's error is returned. When Shutdown returns, all
// goroutines of the server have ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.transport.GracefulStop()
		s.receivers.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.transport.Stop()
		<-done
		return fmt.Errorf("gRPC calls cancelled: %w", ctx.Err())
	}
}

// stopping reports whether Shutdown has begun.
func (s *Server) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// errStopping answers inferences that come, or have not begun, after that.
func errStopping() error {
	return grpcstatus.Error(codes.Unavailable, "GRPC server is shutting down and has stopped accepting new requests.")
}

// handler answers one call.
type handler func(ctx context.Context, stream grpc.ServerStream) error

// guard wraps a handler: calls that are not allowed fail before a message is read, and a panic fails only its call.
func (s *Server) guard(method string, h handler) grpc.StreamHandler {
	group := methodGroup(method)
	return func(_ any, stream grpc.ServerStream) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = s.panicked(method, p)
			}
		}()
		ctx := stream.Context()
		if err := s.mayCall(ctx, method, group); err != nil {
			return err
		}
		return h(ctx, stream)
	}
}

// mayCall returns the status for the client if a call is not allowed.
func (s *Server) mayCall(ctx context.Context, method string, group restrict.Group) error {
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.Debug("gRPC call: " + method)
	}
	if s.authorize != nil {
		if err := s.authorize(ctx, method); err != nil {
			return wireError(err)
		}
	}
	if group == restrict.Inference && s.stopping() {
		return errStopping()
	}
	return s.checkRestricted(ctx, group)
}

// refused counts a call that ends with a status if that is a refusal. recorded: the request of the call is recorded.
func (s *Server) refused(method string, client net.Addr, st *grpcstatus.Status, recorded bool) {
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("gRPC error: " + method + " - " + st.Code().String() + ": " + st.Message())
	}
	if !recorded {
		s.recordRefusal(method, client, st)
	}
	s.refusals.Add(refusals.Refusal{Protocol: "grpc", Cause: refusals.GRPCCause(st), Target: method,
		Client: client.String(), Text: st.Message()})
}

// panicked logs a panic and returns the status for the client.
func (s *Server) panicked(method string, p any) error {
	s.log.Error("gRPC handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return grpcstatus.Error(codes.Internal, "internal error; the server's log has the details")
}
