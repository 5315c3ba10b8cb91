package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"nereid/app/certs"
)

// openTLS reads the certificates of the endpoints that use TLS.
func (s *server) openTLS() error {
	s.secure = map[string]*tls.Config{}
	c := s.c
	if c.UISSL && s.shell != nil {
		return errors.New("--ui-use-ssl: the window talks to its own server on loopback without TLS; leave the option out, or use nereid serve")
	}
	var errs []error
	for _, e := range []struct {
		name        string
		use, mutual bool
		files       TLSFiles
		protocol    string
	}{
		{"grpc", c.AllowGRPC && c.GRPCTLS.Use, c.GRPCTLS.Mutual, c.GRPCTLS, "h2"},
		{"http", c.AllowHTTP && c.HTTPTLS.Use, c.HTTPTLS.Mutual, c.HTTPTLS, "http/1.1"},
		{"metrics", c.AllowMetrics && c.MetricsSSL, c.HTTPTLS.Mutual, c.HTTPTLS, "http/1.1"},
		{"ui", c.AllowUI && c.UISSL, false, c.HTTPTLS, "http/1.1"},
	} {
		if !e.use {
			continue
		}
		config, err := certs.New(certs.Files{Cert: e.files.Cert, Key: e.files.Key, Root: e.files.Root, Mutual: e.mutual,
			Protocols: []string{e.protocol}}, s.log.With("endpoint", e.name))
		errs = append(errs, err)
		s.secure[e.name] = config
	}
	return errors.Join(errs...)
}

// wrapTLS returns the listener under TLS if the endpoint has it. gRPC does that itself.
func (s *server) wrapTLS(name string, l net.Listener) net.Listener {
	if config := s.secure[name]; config != nil {
		return tls.NewListener(l, config)
	}
	return l
}

// dialInference is how the page's tries reach the inference server: as a client does; under TLS, where that would need a
// name and perhaps a certificate, over a pair of sockets inside the process.
func (s *server) dialInference(address net.Addr) func(context.Context) (net.Conn, error) {
	if s.secure["http"] == nil {
		return func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", reachable(address))
		}
	}
	s.inside = newPipes()
	return s.inside.dial
}

// pipes is a listener whose connections begin and end in this process.
type pipes struct {
	ready  chan net.Conn
	closed chan struct{}
	stop   func()
}

var _ net.Listener = (*pipes)(nil)

func newPipes() *pipes {
	ctx, stop := context.WithCancel(context.Background())
	p := &pipes{ready: make(chan net.Conn), closed: make(chan struct{}), stop: stop}
	context.AfterFunc(ctx, func() { close(p.closed) })
	return p
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs, err := connectedPair()
	if err != nil {
		return nil, err
	}
	select {
	case p.ready <- theirs:
		return mine, nil
	case <-p.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, mine.Close(), theirs.Close())
}

// Accept waits for dial.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ready:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (p *pipes) Close() error { p.stop(); return nil }

// Addr says that there is none.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "unix"} }
