package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Server serves the protocol on any number of listeners. Make it with New.
type Server struct {
	opt       Options
	transport *fasthttp.Server
	conns     *connections
	routes    *router
	access    accessPolicy
	pool      tensor.Pool
	regions   *shm.Registry
	exchanges sync.Pool // of *exchange
	compressors
}

// New checks the options and makes a server that serves nothing yet.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{opt: o, routes: newRouter(&o), regions: o.Engine.SharedMemory()}
	s.pool.Budget = o.Memory
	s.access = accessPolicy{&s.opt}
	s.exchanges.New = func() any { return new(exchange) }
	s.transport = s.newTransport()
	s.conns = newConnections(&s.opt, s.serveConn)
	return s, nil
}

// Serve accepts connections on l until Shutdown, then returns nil. It closes l. It retries after temporary failures and
// returns the others. It may be called after Shutdown.
func (s *Server) Serve(l net.Listener) error { return s.conns.accept(l) }

// Shutdown stops accepting, closes idle connections and waits for the requests that are being handled. If ctx ends
// first, it cancels them, closes all connections and returns ctx's error. No goroutine of the server is left, unless
// the engine does not return from a call that was cancelled.
func (s *Server) Shutdown(ctx context.Context) error { return s.conns.shutdown(ctx) }

// lifetime ends when the server is closed. It is the context of work that continues without its client, such as
// loading a model.
func (s *Server) lifetime() context.Context { return s.conns.lifetime }

// serve answers one request.
func (s *Server) serve(x *exchange) {
	defer s.recoverPanic(x)
	x.route = s.routes.find(x)
	s.verbose(x, "HTTP request: ", nil)
	if len(x.origin) > 0 && s.access.preflight(x) {
		s.discardBody(x)
		return
	}
	if err := s.access.check(x); err != nil {
		x.deny(err)
		return
	}
	if x.fault != "" {
		x.closeAfter = true
		x.fail(400, typeText, x.fault)
		return
	}
	if s.routes.binaryType != "" {
		if err := x.takeContentType(s.routes.binaryType); err != nil {
			s.discardBody(x)
			x.failWith(typeText, err)
			return
		}
	}
	if !x.is("POST") || !x.route.methodAllowed {
		s.discardBody(x)
	}
	if !x.route.methodAllowed {
		x.bytes(405, x.route.errorType, []byte(`{"error":"Method Not Allowed"}`))
		return
	}
	if err := x.route.handle(s, x); err != nil {
		s.verbose(x, "HTTP error: ", err)
		x.failWith(x.route.errorType, err)
	}
}

// verbose logs a line about a request, and err unless it is nil, if the log is verbose.
func (s *Server) verbose(x *exchange, what string, err error) {
	if !s.opt.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	line := what + string(x.method) + " " + string(x.path)
	if err != nil {
		line += " - " + err.Error()
	}
	s.opt.Log.Debug(line)
}

// target returns the model and version of the path. Errors: InvalidArg.
func (s *Server) target(x *exchange) (model string, version int64, err error) {
	if m := &x.lastModel; string(x.route.model) != m.segment {
		if m.name, err = unescape(x.route.model); err != nil {
			return "", 0, err
		}
		m.segment = string(x.route.model)
	}
	version = infer.LatestVersion
	if len(x.route.version) > 0 {
		version, err = strconv.ParseInt(string(x.route.version), 10, 64)
		if err != nil {
			err = status.New(status.InvalidArg, "failed to get model version from specified version string '"+
				string(x.route.version)+"' (details: stol), version should be an integral value > 0")
		}
	}
	return x.lastModel.name, version, err
}

// unescape decodes the %XX of a path segment.
func unescape(segment []byte) (string, error) {
	name, err := url.PathUnescape(string(segment))
	if err != nil {
		return "", status.New(status.InvalidArg, "the path has a malformed %-escape")
	}
	return name, nil
}
