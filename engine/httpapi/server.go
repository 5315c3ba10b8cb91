package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/restrict"
	"nereid/engine/shm"
	"nereid/engine/system/socket"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// Options of a server.
type Options struct {
	// Engine answers. Required.
	Engine Engine
	// Log; default: nothing is logged.
	Log *slog.Logger
	// Trace samples inferences and is what the trace extension shows; nil: there is no tracing.
	Trace *trace.Tracer
	// LogControl is what the logging extension shows; nil: there is none.
	LogControl engine.LogControl
	// BasePath is what a proxy puts before /v2, for example "/api/predict/svc". Requests without it are served as well.
	BasePath string
	// ServerName is the Server header; "": none, as Triton.
	ServerName string

	// AllowedHosts are the names that the Host header may have besides addresses and localhost; "*" allows all.
	// nil: the header is not looked at. Ports do not count.
	AllowedHosts []string
	// AllowedOrigins are the foreign origins ("https://app.example") whose pages may use the server: their requests are
	// served and browsers are told so (CORS). There is no wildcard.
	AllowedOrigins []string
	// Authorize decides on every request, known path or not, before its body is read; nil allows all. An error that
	// is a *Denied chooses the status, others give 403. It is called from many goroutines.
	Authorize func(*Access) error

	// Metrics appends the server's metrics as Prometheus text, for load reports. nil: there are none.
	Metrics func(dst []byte) []byte
	// Restricted are the groups of routes that need a header: Triton's --http-restricted-api. nil: none.
	Restricted *restrict.Rules
	// ForwardHeaders, if not nil, finds the names of the headers that become parameters of the inference request, with
	// string values: Triton's --http-header-forward-pattern.
	ForwardHeaders *regexp.Regexp

	// V1 serves KServe's v1 protocol, which is TensorFlow Serving's, below /v1/models beside v2.
	V1 bool
	// SageMaker or VertexAI, not both: the server answers that service's routes in place of the v2 ones.
	SageMaker *SageMaker
	VertexAI  *VertexAI

	// MaxBody bounds a request's body in bytes, as sent and decompressed. Default 64 MiB, as Triton's
	// --http-max-input-size.
	MaxBody int64
	// MaxHeader bounds a request's line and header together, in bytes. Default 8 KiB.
	MaxHeader int
	// MaxConnections bounds the open connections; more get 503. Default 65536.
	MaxConnections int
	// HeaderTimeout is how long a header may take. Default 10 s.
	HeaderTimeout time.Duration
	// StallTimeout is how long a body or a reply may make no progress at all. Default 60 s.
	StallTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request. Default 10 min.
	IdleTimeout time.Duration

	parkAfter time.Duration // how long a connection is idle before it is parked
}

func (o *Options) complete() error {
	var errs []error
	if o.Engine == nil {
		errs = append(errs, errors.New("httpapi: Options.Engine is missing"))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.BasePath = strings.TrimSuffix(o.BasePath, "/")
	if o.BasePath != "" && o.BasePath[0] != '/' {
		errs = append(errs, fmt.Errorf("httpapi: base path %q does not begin with a slash", o.BasePath))
	}
	if o.MaxBody < 0 || o.MaxHeader < 0 || o.MaxConnections < 0 {
		errs = append(errs, errors.New("httpapi: a limit is negative; use 0 for the default"))
	}
	setDefault(&o.MaxBody, 64<<20)
	setDefault(&o.MaxHeader, 8<<10)
	setDefault(&o.MaxConnections, 65536)
	setDefault(&o.HeaderTimeout, 10*time.Second)
	setDefault(&o.StallTimeout, time.Minute)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.parkAfter, defaultParkAfter)
	return errors.Join(errs...)
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Server serves the protocol on any number of listeners. Make it with New.
type Server struct {
	opt       Options
	transport *fasthttp.Server
	pool      tensor.Pool
	regions   *shm.Registry
	names     nameTable
	exchanges sync.Pool // of *exchange
	compressors

	// lifetime ends when the server is closed by force: it is the context of what outlives its client, as loading.
	lifetime context.Context
	kill     context.CancelFunc

	tick    atomic.Int64 // the watcher's clock, in tickTime
	dozing  atomic.Bool
	open    atomic.Int64  // connections, parked ones too
	kick    chan struct{} // capacity 1
	closing atomic.Bool

	mu        sync.Mutex         // guards the next five
	conns     map[*conn]struct{} // those that are served
	lot       lot                // the others
	listeners map[net.Listener]struct{}
	watcher   chan struct{} // closed to stop the watcher; nil before the first Serve
	drained   chan struct{} // closed when closing and no connection is left

	running sync.WaitGroup // connections and the watcher
}

// New checks the options and makes a server that serves nothing yet.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		opt: o, regions: o.Engine.SharedMemory(), kick: make(chan struct{}, 1),
		conns: map[*conn]struct{}{}, listeners: map[net.Listener]struct{}{}, drained: make(chan struct{}),
	}
	s.exchanges.New = func() any { return new(exchange) }
	s.lifetime, s.kill = context.WithCancel(context.Background())
	s.transport = s.newTransport()
	return s, nil
}

// Serve accepts connections on l until Shutdown, then returns nil. It closes l. Any other failure to accept that does
// not pass is returned.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.start(l) {
		return errors.New("httpapi: the server is shut down")
	}
	var shed shedder
	defer shed.close()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}()
	pause := time.Duration(0)
	for {
		shed.arm()
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.accept(nc)
			continue
		}
		if s.closing.Load() {
			return nil
		}
		if noDescriptors(err) && shed.disarm() {
			if nc, err = l.Accept(); err == nil {
				if shed.arm() { // there are some again
					s.accept(nc)
				} else {
					shed.tell(s.opt.Log)
					s.reject(nc, "the server has no file descriptor left for this connection")
				}
				continue
			}
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() { // too many open files, for one, passes
			return fmt.Errorf("httpapi: accept on %v: %w", l.Addr(), err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.opt.Log.Warn("cannot accept HTTP connections for now", "err", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-s.lifetime.Done():
		}
	}
}

// start registers a listener and starts the watcher.
func (s *Server) start(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	if s.watcher == nil {
		s.watcher = make(chan struct{})
		stop := s.watcher
		s.running.Go(func() { s.watch(stop) })
	}
	return true
}

// accept serves a connection on a goroutine of its own.
func (s *Server) accept(nc net.Conn) {
	c := newConn(s, socket.New(nc))
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		_ = nc.Close() // it was never served
		return
	}
	if s.open.Load() >= int64(s.opt.MaxConnections) {
		s.mu.Unlock()
		s.reject(nc, "the server has as many connections as it takes")
		return
	}
	s.conns[c] = struct{}{}
	s.open.Add(1)
	s.mu.Unlock()
	c.since.Store(s.tick.Load())
	s.wake()
	s.running.Go(func() { s.run(c) })
}

func (s *Server) drainedLocked() {
	if s.closing.Load() && s.open.Load() == 0 {
		select {
		case <-s.drained:
		default:
			close(s.drained)
		}
	}
}

// Shutdown stops accepting, closes idle connections and waits for the requests that are being handled. When ctx ends
// first, it cancels them, closes all connections and returns ctx's error. No goroutine of the server is left, unless the
// engine does not return from a call that was cancelled.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing.Store(true)
	for l := range s.listeners {
		_ = l.Close() // Serve closes it too
	}
	for c := range s.conns {
		if c.phase.CompareAndSwap(int32(idle), int32(shutting)) {
			_ = c.Conn.Close() // its goroutine ends by it
		}
	}
	s.closeParked(func(*conn) bool { return true })
	s.drainedLocked()
	s.mu.Unlock()

	var err error
	select {
	case <-s.drained:
	case <-ctx.Done():
		err = ctx.Err()
		s.abort()
	}
	s.kill()
	s.mu.Lock()
	if s.watcher != nil {
		close(s.watcher)
		s.watcher = nil
	}
	if s.lot.set != nil {
		s.lot.set.close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// abort cancels what is being handled and closes every connection.
func (s *Server) abort() {
	s.kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.leave()
		_ = c.Conn.Close() // its goroutine ends by it
	}
}

// below returns the path below the base path.
func (s *Server) below(path []byte) []byte {
	if s.opt.BasePath != "" && hasPrefix(path, s.opt.BasePath) {
		return path[len(s.opt.BasePath):]
	}
	return path
}

// serve answers one request.
func (s *Server) serve(x *exchange) {
	defer s.guard(x)
	x.route = s.routeOf(x)
	if len(x.origin) > 0 && s.cors(x) {
		return
	}
	if err := s.checkAccess(x); err != nil {
		s.refuse(x, err)
		return
	}
	if x.fault != "" {
		x.closeAfter = true
		x.fail(400, typeText, x.fault)
		return
	}
	if s.binaryType() != "" && !s.takeContentType(x) {
		s.readAway(x)
		return
	}
	if x.route.endpoint == modelInfer && x.is("POST") {
		if model, version, ok := s.target(x, typeText); ok {
			s.infer(x, model, version)
		}
		return
	}
	s.serveOther(x)
}

// refuse answers a request that has no access.
func (s *Server) refuse(x *exchange, err error) {
	code, text := 403, err.Error()
	var d *Denied
	if errors.As(err, &d) {
		code = d.Status
	}
	x.challenge = code == 401
	x.fail(code, typeText, text)
}

// target returns the model and version of a path. If it returns false, the reply is an error already.
func (s *Server) target(x *exchange, contentType string) (model string, version int64, ok bool) {
	name, ok := unescape(x.route.model)
	if !ok {
		x.fail(400, contentType, "the path has a malformed %-escape")
		return "", 0, false
	}
	version = infer.LatestVersion
	if v := x.route.version; len(v) > 0 {
		n, err := strconv.ParseInt(view(v), 10, 64)
		if err != nil {
			x.fail(400, contentType, "failed to get model version from specified version string '"+string(v)+
				"' (details: stol), version should be an integral value > 0")
			return "", 0, false
		}
		version = n
	}
	return s.names.get(name), version, true
}

// nameTable makes one string per model name, so that requests need none of their own.
type nameTable struct {
	m  atomic.Pointer[map[string]string]
	mu sync.Mutex // held by writers
}

// maxNames bounds the table; only names that the engine knows get in.
const maxNames = 4096

func (t *nameTable) get(name []byte) string {
	if m := t.m.Load(); m != nil {
		if s, ok := (*m)[string(name)]; ok {
			return s
		}
	}
	return string(name)
}

// keep adds the name of a model that exists.
func (t *nameTable) keep(name string) {
	m := t.m.Load()
	if m != nil {
		if _, ok := (*m)[name]; ok {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[string]string{name: name}
	if m = t.m.Load(); m != nil && len(*m) < maxNames {
		for k := range *m {
			next[k] = k
		}
	}
	t.m.Store(&next)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
