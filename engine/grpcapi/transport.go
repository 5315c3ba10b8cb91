package grpcapi

import (
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // grpc-go: clients may compress requests

	"nereid/engine/grpcapi/h2"
)

// The transports: our own HTTP/2, and grpc-go's server.
const (
	TransportNative = "native"
	TransportGRPCGo = "grpc-go"
)

// Transports are the values of Options.Transport.
func Transports() []string { return []string{TransportNative, TransportGRPCGo} }

// transport carries the calls. grpc-go's server and our own are used alike.
type transport interface {
	grpc.ServiceRegistrar
	GetServiceInfo() map[string]grpc.ServiceInfo
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// newTransport makes the transport that o names, with the services registered.
func (s *Server) newTransport(o *Options) (transport, error) {
	switch o.Transport {
	case "", TransportNative:
		return s.nativeTransport(o)
	case TransportGRPCGo:
		t := s.grpcGoTransport(o)
		s.register(t, o.Reflection)
		return t, nil
	}
	return nil, fmt.Errorf("grpcapi: transport %q is neither %q nor %q", o.Transport, TransportNative, TransportGRPCGo)
}

func (s *Server) register(t transport, reflect bool) {
	services := s.services()
	if reflect {
		services = append(services, s.reflection()...)
	}
	for _, d := range services {
		t.RegisterService(d, nil)
	}
}

func (s *Server) nativeTransport(o *Options) (transport, error) {
	t, err := h2.New(h2.Options{
		Codec: newCodec(), Log: o.Log, TLS: o.TLS, Pool: &s.pool, MaxReceiveBytes: o.MaxReceiveBytes, MaxSendBytes: o.MaxSendBytes,
		MaxConcurrentStreams: o.MaxConcurrentStreams, Keepalive: o.Keepalive, Enforcement: o.Enforcement,
	})
	if err != nil {
		return nil, err
	}
	s.register(t, o.Reflection)
	if err := t.HandleInline(inferMethod, inlineInfer{s, methodGroup(inferMethod)}); err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Server) grpcGoTransport(o *Options) transport {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxReceiveBytes),
		grpc.MaxSendMsgSize(o.MaxSendBytes),
		grpc.MaxConcurrentStreams(o.MaxConcurrentStreams),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveParams(o.Keepalive),
		grpc.KeepaliveEnforcementPolicy(o.Enforcement),
		grpc.WaitForHandlers(true),
		// Calls run on goroutines that are kept: a new one grows its stack in every call, about a quarter of a small
		// request's CPU time. More calls than that at once get goroutines of their own.
		grpc.NumStreamWorkers(streamWorkers),
		grpc.RPCDecompressor(deflate{limit: o.MaxReceiveBytes}), //nolint:staticcheck // its successor is a global registry
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return grpc.NewServer(opts...)
}
