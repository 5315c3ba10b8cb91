package listen

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/engine/system/socket"
)

// Guard limits the connections of a net/http server, and how long their clients may hang. Reading a body that stops
// arriving, or arrives too slowly, fails after a while. So does writing a response that the client does not read. At
// the limit, a new connection takes the place of the one that has waited longest for its client. If none has waited
// long enough, the new one waits a little longer than that. If none waits at all, the new one gets 503 at once.
// Slow headers and idle connections are left to the timeouts of http.Server. Its methods are safe for concurrent use.
type Guard struct {
	connections int           // the limit
	patience    time.Duration // how long a client may hang

	mu      sync.Mutex
	conns   map[*guarded]struct{}     // open; guarded by mu, as are the next three
	clients map[string]*guarded       // open, by the client's address
	bodies  map[*patientBody]struct{} // that are being read
	closing bool
}

const (
	// closingStall is how long a client may hang while the server shuts down.
	closingStall = 3 * time.Second
	// A client hangs if less than a sixteenth of a body arrives in the time, or mostProgress bytes if that is less. A
	// body whose length is not known needs unknownProgress. The inference port of HTTP has the same rule.
	mostProgress    = 64 << 10
	unknownProgress = 1 << 10
	// minWait is how long a connection must have waited for its client before a new one may take its place. A client on
	// a busy machine may need most of that between its connection and its request.
	minWait = time.Second
	// placeTries is how often a new connection looks for a place, and placePause the time between: together more than
	// minWait. A slow server accepts all that came in a second within an instant, so none has waited for its client
	// yet.
	placeTries = 6
	placePause = 250 * time.Millisecond
)

// NewGuard returns a Guard with at most that many connections. Their clients may hang for stall.
func NewGuard(connections int, stall time.Duration) *Guard {
	return &Guard{connections: connections, patience: stall, conns: map[*guarded]struct{}{},
		clients: map[string]*guarded{}, bodies: map[*patientBody]struct{}{}}
}

// Listener returns l with the limits. It must be below TLS.
func (g *Guard) Listener(l net.Listener) net.Listener { return &guardedListener{l, g} }

// Closing shortens the time that clients may hang to closingStall. Call it when the server begins to shut down.
func (g *Guard) Closing() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closing = true
	deadline := time.Now().Add(closingStall)
	for c := range g.conns { // the next write sets its own deadline
		_ = c.SetWriteDeadline(deadline) // fails only if the connection is closed, as below
	}
	for b := range g.bodies {
		_ = b.control.SetReadDeadline(deadline)
	}
}

// stall returns how long a client may hang now.
func (g *Guard) stall() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return min(g.patience, closingStall)
	}
	return g.patience
}

type guardedListener struct {
	net.Listener
	g *Guard
}

// Accept waits for a connection and admits it. It answers those beyond the limit with 503.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, soon := l.g.admit(nc)
		for try := 1; soon && try < placeTries; try++ {
			time.Sleep(placePause)
			c, soon = l.g.admit(nc)
		}
		if c != nil {
			return c, nil
		}
		_ = nc.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // no other connection is accepted meanwhile
		_, _ = io.WriteString(nc, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"+
			"Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n") // the client may be gone
		_ = nc.Close()
	}
}

// admit returns nil if there are too many connections, and none has waited for its client for long enough. soon reports
// whether one is waiting.
func (g *Guard) admit(nc net.Conn) (admitted *guarded, soon bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) >= g.connections {
		if made, soon := g.makeRoom(); !made {
			return nil, soon
		}
	}
	c := &guarded{Conn: nc, g: g, client: nc.RemoteAddr().String()}
	c.moved()
	g.conns[c], g.clients[c.client] = struct{}{}, c
	return c, false
}

// makeRoom closes the connection on which nothing has moved for the longest time, and at least for minWait. A
// connection whose request is being handled stays, unless its client does not read the response. soon reports whether a
// connection waits for its client, but not for minWait yet. g.mu is held.
func (g *Guard) makeRoom() (made, soon bool) {
	for {
		var oldest *guarded
		before := time.Now().Add(-minWait).UnixNano()
		soon = false
		for c := range g.conns {
			if !c.writing.Load() && c.working > 0 {
				continue
			}
			soon = true
			if at := c.active.Load(); at < before {
				oldest, before = c, at
			}
		}
		if oldest == nil {
			return false, soon
		}
		if !oldest.writing.Load() && oldest.unread() {
			oldest.moved() // its client waits for the server, which is slow
			continue
		}
		g.forget(oldest)
		_ = oldest.Conn.Close() // the server notices, and closes it again
		return true, false
	}
}

// guarded is a connection that a Guard has admitted.
type guarded struct {
	net.Conn
	g       *Guard
	client  string       // the client's address
	working int          // its requests that are being handled; guarded by g.mu
	active  atomic.Int64 // when it last moved, as Unix nanoseconds: bytes, or the end of a request's handler
	writing atomic.Bool  // Write is running
}

func (c *guarded) moved() { c.active.Store(time.Now().UnixNano()) }

// unread reports whether bytes of the client have come that were not read yet.
func (c *guarded) unread() bool {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false // it is closed
	}
	found := false
	socket.PeerClosed(raw, func([]byte) bool { found = true; return false })
	return found
}

// forget removes a connection that is closed. g.mu is held.
func (g *Guard) forget(c *guarded) {
	delete(g.conns, c)
	if g.clients[c.client] == c {
		delete(g.clients, c.client)
	}
}

// NetConn returns the connection that is guarded.
func (c *guarded) NetConn() net.Conn { return c.Conn }

// Read reads, and notes that something came.
func (c *guarded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.moved()
	return n, err
}

// Write writes in pieces, so that a client that reads slowly makes progress.
func (c *guarded) Write(b []byte) (n int, err error) {
	const piece = 64 << 10
	c.moved() // the request may have taken long
	c.writing.Store(true)
	defer c.writing.Store(false)
	for first := true; first || n < len(b) && err == nil; first = false {
		if err = c.SetWriteDeadline(time.Now().Add(c.g.stall())); err != nil {
			return n, err
		}
		var k int
		k, err = c.Conn.Write(b[n:min(len(b), n+piece)])
		c.moved()
		n += k
	}
	return n, err
}

// Close closes the connection.
func (c *guarded) Close() error {
	c.g.mu.Lock()
	c.g.forget(c)
	c.g.mu.Unlock()
	return c.Conn.Close()
}

// Handler returns next with the limits. It must be the server's outermost handler.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			g.work(r.RemoteAddr, 1)
			defer g.work(r.RemoteAddr, -1)
			next.ServeHTTP(w, r)
			return
		}
		b := &patientBody{ReadCloser: r.Body, g: g, control: http.NewResponseController(w), client: r.RemoteAddr,
			wanted: unknownProgress}
		if r.ContentLength >= 0 {
			b.wanted = min(r.ContentLength/16, mostProgress)
		}
		r.Body = b
		_ = b.control.SetReadDeadline(time.Now().Add(g.stall())) // if next does not read the body, the server does
		g.track(b, true)
		defer g.track(b, false)
		defer func() {
			if b.ended.Load() {
				g.work(b.client, -1)
			} else { // the server reads what is left, to use the connection again
				_ = b.control.SetReadDeadline(time.Now().Add(time.Second))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// work adds n, which is 1 or -1, to the requests of a client that are being handled. Meanwhile the server waits for
// nothing from this client.
func (g *Guard) work(client string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.clients[client]; c != nil {
		c.working += n
		c.moved()
	}
}

// track adds a body to those that are being read, or removes it.
func (g *Guard) track(b *patientBody, on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if on {
		g.bodies[b] = struct{}{}
	} else {
		delete(g.bodies, b)
	}
}

// patientBody is the body of a request. Reading it fails with a timeout when the client was waited for during
// Guard.stall, and less than wanted bytes arrived meanwhile. One goroutine reads it.
type patientBody struct {
	io.ReadCloser
	g       *Guard
	control *http.ResponseController
	client  string // its address
	ended   atomic.Bool

	wanted  int64         // bytes
	arrived int64         // since waited was 0
	waited  time.Duration // for the client; not while the handler does something else
}

func (b *patientBody) Read(p []byte) (int, error) {
	begin := time.Now()
	_ = b.control.SetReadDeadline(begin.Add(b.g.stall() - b.waited)) // fails only if the connection is closed, as below
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(begin)
	if b.arrived += int64(n); n > 0 && b.arrived >= b.wanted {
		b.arrived, b.waited = 0, 0
	}
	if errors.Is(err, io.EOF) && b.ended.CompareAndSwap(false, true) {
		b.g.work(b.client, 1)
		_ = b.control.SetReadDeadline(time.Time{}) // the server notices by reading on that the client left
	}
	return n, err
}
