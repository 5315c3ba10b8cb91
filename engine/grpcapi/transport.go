package grpcapi

import (
	"net"

	"google.golang.org/grpc"

	"nereid/engine/grpcapi/h2"
)

// transport carries the calls: *h2.Server. The tests also run over grpc-go's server.
type transport interface {
	grpc.ServiceRegistrar
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// newTransport makes the server of HTTP/2, with the services registered.
func (s *Server) newTransport(o *Options) (transport, error) {
	t, err := h2.New(h2.Options{
		Codec: newCodec(), Log: o.Log, TLS: o.TLS, Pool: &s.pool,
		MaxReceiveBytes: o.MaxReceiveBytes, Keepalive: o.Keepalive, Enforcement: o.Enforcement,
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

// register describes the services to t.
func (s *Server) register(t transport, reflect bool) {
	services := s.services()
	if reflect {
		services = append(services, s.reflection()...)
	}
	for _, d := range services {
		t.RegisterService(d, nil)
	}
}
