package listen

import (
	"net"
	"net/netip"
	"sync"
)

// Tracking is a TCP listener that knows its open connections, so that it can close them too.
type Tracking struct {
	*net.TCPListener
	mu     sync.Mutex
	conns  map[*trackedConn]struct{} // guarded by mu
	closed bool                      // guarded by mu
}

type trackedConn struct {
	*net.TCPConn
	of *Tracking
}

// NewTracking listens on an address.
func NewTracking(at netip.AddrPort) (*Tracking, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	return &Tracking{TCPListener: l, conns: map[*trackedConn]struct{}{}}, nil
}

// Accept waits for a connection.
func (l *Tracking) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	k := &trackedConn{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close() // no server has seen it
		return nil, net.ErrClosed
	}
	l.conns[k] = struct{}{}
	return k, nil
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}

// CloseAll closes the listener and its connections. The goroutines that serve them get errors.
func (l *Tracking) CloseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.TCPListener.Close()
	for c := range l.conns {
		_ = c.TCPConn.Close()
	}
	l.conns = nil
}

// Closed reports whether CloseAll was called.
func (l *Tracking) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
