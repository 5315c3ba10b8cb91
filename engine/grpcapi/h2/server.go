package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/system/socket"
)

// Server answers gRPC calls. Services must be registered before Serve. Its other methods are safe for concurrent use.
type Server struct {
	o        Options
	methods  map[string]*method // by full name
	services map[string]bool
	origin   time.Time

	mu        sync.Mutex // guards the next four
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	stopping  bool
	watched   bool           // the timer for clients that hang is running
	running   sync.WaitGroup // connections, and calls of Serve
}

// method is how one method is served.
type method struct {
	handler                      func(*Stream) error
	inline                       Inline
	clientStreams, serverStreams bool
}

// New returns a server without listeners.
func New(o Options) (*Server, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"h2"}
	}
	return &Server{
		o: o, methods: map[string]*method{}, services: map[string]bool{}, origin: time.Now(),
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
	}, nil
}

// now returns the nanoseconds since the server was made, without an allocation.
func (s *Server) now() int64 { return int64(time.Since(s.origin)) }

// RegisterService adds the methods in d.Streams. A unary method is described there as a stream without client and
// server streaming; d.Methods is ignored.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	for _, m := range d.Streams {
		s.methods["/"+d.ServiceName+"/"+m.StreamName] = &method{
			handler:       func(st *Stream) error { return m.Handler(impl, st) },
			clientStreams: m.ClientStreams, serverStreams: m.ServerStreams,
		}
	}
	s.services[d.ServiceName] = true
}

// HandleInline makes in serve a registered unary method in place of its handler.
func (s *Server) HandleInline(fullMethod string, in Inline) error {
	m := s.methods[fullMethod]
	if m == nil || m.clientStreams || m.serverStreams {
		return fmt.Errorf("h2: %s is not a registered unary method", fullMethod)
	}
	m.inline = in
	return nil
}

// unknown returns the status of a call to a method that is not registered.
func (s *Server) unknown(path string) *grpcstatus.Status {
	service, name, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !strings.HasPrefix(path, "/") || !ok:
		return grpcstatus.New(codes.Unimplemented, fmt.Sprintf("malformed method name: %q", path))
	case !s.services[service]:
		return grpcstatus.New(codes.Unimplemented, "unknown service "+service)
	}
	return grpcstatus.New(codes.Unimplemented, fmt.Sprintf("unknown method %s for service %s", name, service))
}

// ErrStopped is returned by Serve if Stop or GracefulStop was called before it.
var ErrStopped = errors.New("h2: the server has been stopped")

// Serve accepts connections on l until the server is stopped, and closes l. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		_ = l.Close() // the caller gets ErrStopped
		return ErrStopped
	}
	s.listeners[l] = true
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		_ = l.Close() // closed by Stop, or broken
	}()
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.start(nc)
			continue
		}
		s.mu.Lock()
		stopping := s.stopping
		s.mu.Unlock()
		if stopping {
			return nil
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second) // out of descriptors: some may be closed meanwhile
		s.o.Log.Warn("gRPC: a connection cannot be accepted; trying again", "err", err, "after", pause)
		time.Sleep(pause)
	}
}

// start serves a connection on a goroutine.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, socket.New(nc))
	s.mu.Lock()
	if s.stopping || len(s.conns) >= s.o.MaxConnections {
		s.mu.Unlock()
		_ = nc.Close() // nothing has been exchanged yet
		return
	}
	s.conns[c] = true
	s.watch()
	s.running.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.running.Done()
		s.serve(c)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

func (s *Server) serve(c *conn) {
	_ = c.nc.SetDeadline(time.Now().Add(s.o.ConnectionTimeout)) // removed when the first settings come
	remote := &peer.Peer{Addr: c.nc.RemoteAddr(), LocalAddr: c.nc.LocalAddr()}
	if s.o.TLS != nil {
		t := tls.Server(c.nc, s.o.TLS)
		if err := t.Handshake(); err != nil {
			s.o.Log.Debug("gRPC: TLS handshake failed", "peer", remote.Addr.String(), "err", err)
			_ = c.nc.Close() // broken
			return
		}
		remote.AuthInfo = credentials.TLSInfo{
			State:          t.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
		c.mu.Lock()
		c.nc = t
		c.mu.Unlock()
	}
	c.socket, _ = c.nc.(*socket.Conn)
	_, isTCP := c.nc.(*net.TCPConn)
	c.write.copyAll = !isTCP && c.socket == nil
	base := socket.NewContext(context.Background(), c.nc)
	c.ctx, c.cancel = context.WithCancel(peer.NewContext(base, remote))
	c.reader.headers = newHeaderReader(c)
	c.life.start()
	c.serve()
}

// Stop closes the listeners and the connections, cancels the calls and waits for their goroutines.
func (s *Server) Stop() {
	for c := range s.halt() {
		c.mu.Lock()
		c.close()
		c.mu.Unlock()
	}
	s.running.Wait()
}

// GracefulStop closes the listeners, announces the end to the clients, and waits until the running calls have ended and
// all connections are closed.
func (s *Server) GracefulStop() {
	for c := range s.halt() {
		c.life.drain("graceful_stop")
	}
	s.running.Wait()
}

// halt closes the listeners and returns the connections.
func (s *Server) halt() map[*conn]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.watched = false // look more often
	s.watch()
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	return maps.Clone(s.conns)
}
