package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"nereid/engine/tensor"
)

// Server answers gRPC calls. Services are registered before Serve.
type Server struct {
	o        Options
	methods  map[string]*method // by full name
	services map[string]grpc.ServiceInfo
	origin   time.Time

	mu        sync.Mutex // guards the next three
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	stopping  bool
	running   sync.WaitGroup // connections, and listeners in Serve
}

// method is how one method is answered.
type method struct {
	handler                      func(*Stream) error
	inline                       Inline
	clientStreams, serverStreams bool
}

// New makes a server that listens nowhere yet.
func New(o Options) (*Server, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"h2"}
	}
	return &Server{
		o: o, methods: map[string]*method{}, services: map[string]grpc.ServiceInfo{}, origin: time.Now(),
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
	}, nil
}

// now is a clock that costs no allocation: nanoseconds since the server was made.
func (s *Server) now() int64 { return int64(time.Since(s.origin)) }

// RegisterService adds a service, as grpc.Server does.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	info := grpc.ServiceInfo{Metadata: d.Metadata}
	for _, m := range d.Methods {
		s.methods["/"+d.ServiceName+"/"+m.MethodName] = &method{handler: func(st *Stream) error {
			out, err := m.Handler(impl, st.Context(), st.RecvMsg, nil)
			if err != nil {
				return err
			}
			return st.SendMsg(out)
		}}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
	}
	for _, m := range d.Streams {
		s.methods["/"+d.ServiceName+"/"+m.StreamName] = &method{
			handler:       func(st *Stream) error { return m.Handler(impl, st) },
			clientStreams: m.ClientStreams, serverStreams: m.ServerStreams,
		}
		info.Methods = append(info.Methods, grpc.MethodInfo{
			Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams,
		})
	}
	s.services[d.ServiceName] = info
}

// GetServiceInfo returns what is registered, for reflection.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return maps.Clone(s.services) }

// HandleInline has a unary method that is registered answered inline.
func (s *Server) HandleInline(fullMethod string, in Inline) error {
	m := s.methods[fullMethod]
	if m == nil || m.clientStreams || m.serverStreams {
		return fmt.Errorf("h2: %s is not a registered unary method", fullMethod)
	}
	m.inline = in
	return nil
}

// unknown is the answer to a call of a method that is not there.
func (s *Server) unknown(path string) *grpcstatus.Status {
	service, name, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !strings.HasPrefix(path, "/") || !ok:
		return grpcstatus.New(codes.Unimplemented, fmt.Sprintf("malformed method name: %q", path))
	case s.services[service].Metadata == nil && len(s.services[service].Methods) == 0:
		return grpcstatus.New(codes.Unimplemented, "unknown service "+service)
	}
	return grpcstatus.New(codes.Unimplemented, fmt.Sprintf("unknown method %s for service %s", name, service))
}

// ErrStopped is returned by Serve after Stop or GracefulStop was called before it.
var ErrStopped = errors.New("h2: the server has been stopped")

// Serve answers on l until the server is stopped, and closes l. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		_ = l.Close() // the error that counts is the other
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
		_ = l.Close() // closed already by Stop, or broken
	}()
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.begun(nc)
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
		pause = min(max(2*pause, 5*time.Millisecond), time.Second) // out of descriptors: others may close some
		s.o.Log.Warn("gRPC: a connection cannot be taken; trying again", "err", err, "after", pause)
		time.Sleep(pause)
	}
}

// begun starts a connection.
func (s *Server) begun(nc net.Conn) {
	c := newConn(s, socket.New(nc))
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		_ = nc.Close() // nothing was said yet
		return
	}
	s.conns[c] = true
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
	_ = c.nc.SetDeadline(time.Now().Add(s.o.ConnectionTimeout)) // lifted with the first settings
	who := &peer.Peer{Addr: c.nc.RemoteAddr(), LocalAddr: c.nc.LocalAddr()}
	if s.o.TLS != nil {
		t := tls.Server(c.nc, s.o.TLS)
		if err := t.Handshake(); err != nil {
			s.o.Log.Debug("gRPC: TLS handshake failed", "peer", who.Addr.String(), "err", err)
			_ = c.nc.Close() // broken
			return
		}
		who.AuthInfo = credentials.TLSInfo{
			State:          t.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
		c.mu.Lock()
		c.nc = t
		c.mu.Unlock()
	}
	c.socket, _ = c.nc.(*socket.Conn)
	_, isTCP := c.nc.(*net.TCPConn)
	c.copyAll = !isTCP && c.socket == nil
	ctx, cancel := context.WithCancel(peer.NewContext(context.Background(), who))
	c.ctx, c.cancel = ctx, cancel
	c.headers = newHeaderReader(c)
	c.keepAlive()
	c.serve()
}

// Counts returns how many connections are open and how many calls run on them.
func (s *Server) Counts() (connections, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		calls += len(c.streams)
		c.mu.Unlock()
	}
	return len(s.conns), calls
}

// Stop closes the listeners and the connections, cancels the calls and waits for their goroutines.
func (s *Server) Stop() {
	for c := range s.halt() {
		c.mu.Lock()
		c.die()
		c.mu.Unlock()
	}
	s.running.Wait()
}

// GracefulStop closes the listeners, tells the clients, and waits until the running calls have ended and all
// connections are closed.
func (s *Server) GracefulStop() {
	for c := range s.halt() {
		c.drain("graceful_stop")
	}
	s.running.Wait()
}

// halt closes the listeners and returns the connections.
func (s *Server) halt() map[*conn]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	return maps.Clone(s.conns)
}

// keepAlive starts the timers of a connection. They end with it.
func (c *conn) keepAlive() {
	k := &c.srv.o.Keepalive
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead.Store(c.srv.now())
	c.idleSince = time.Now()
	if age := k.MaxConnectionAge; age != forever {
		age += time.Duration((rand.Float64() - 0.5) * 0.2 * float64(age)) //nolint:gosec // jitter, so that not all clients come back at once
		c.after(timerAge, age, func() {
			c.drain("max_age")
			if k.MaxConnectionAgeGrace == forever {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.after(timerGrace, k.MaxConnectionAgeGrace, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.die()
			})
		})
	}
	if k.MaxConnectionIdle != forever {
		c.after(timerIdle, k.MaxConnectionIdle, c.checkIdle)
	}
	c.after(timerAlive, k.Time, c.checkAlive)
}

// after runs f later unless the connection ends before. c.mu is held.
func (c *conn) after(which int, d time.Duration, f func()) {
	if c.dead {
		return
	}
	c.timers[which] = time.AfterFunc(d, f)
}

func (c *conn) checkIdle() {
	limit := c.srv.o.Keepalive.MaxConnectionIdle
	c.mu.Lock()
	left := limit - time.Since(c.idleSince)
	if len(c.streams) > 0 {
		left = limit
	}
	if left > 0 {
		c.after(timerIdle, left, c.checkIdle)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.drain("max_idle")
}

// checkAlive pings a client of which nothing has come for the keepalive time, and ends the connection if nothing comes
// after that either.
func (c *conn) checkAlive() {
	k := &c.srv.o.Keepalive
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.lastRead.Load()
	if left := k.Time - time.Duration(c.srv.now()-last); left > 0 {
		c.after(timerAlive, left, c.checkAlive)
		return
	}
	if c.dead {
		return
	}
	c.out.b = append(appendHead(c.out.b, 8, framePing, 0, 0), "nereid\x00\x00"...)
	c.wake()
	c.after(timerAlive, k.Timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.lastRead.Load() == last {
			c.die()
			return
		}
		c.after(timerAlive, k.Time, c.checkAlive)
	})
}

// accept, begin and resume call an Inline. One that panics has failed its call; who wants more recovers itself.

func (s *Server) accept(st *Stream) error { return st.req.method.inline.Accept(st.req.ctx) }

func (s *Server) begin(st *Stream, b *tensor.Buffer) { st.req.method.inline.Begin(st, b) }

func (s *Server) resume(st *Stream) { st.req.method.inline.Resume(st) }
