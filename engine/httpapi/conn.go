package httpapi

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/engine/tensor"
)

// phase is what a connection is doing.
type phase int32

const (
	idle     phase = iota // between requests
	heading               // the header of a request is coming in
	reading               // the body of a request is coming in
	working               // the request is being handled
	writing               // the reply is going out
	shutting              // closed because the server is shutting down
)

// conn is a client's connection. It is also the context of the request that it carries: done when the client is gone.
// One goroutine serves it; the watcher only reads its atomic fields, ends its reads and closes gone.
type conn struct {
	net.Conn
	srv   *Server
	phase atomic.Int32
	// since is the watcher's tick at which the phase began, or at which there was last progress in it.
	since atomic.Int64
	gone  chan struct{}
	once  sync.Once // closes gone

	x      exchange
	reply  *tensor.Buffer // the reply that is being written
	heard  bool           // the client has sent something
	linger bool           // the client may still be sending: let it read the reply before the connection is reset
	raw    syscall.RawConn
	body   bodyReader
}

var _ context.Context = (*conn)(nil)

func newConn(s *Server, c net.Conn) *conn {
	k := &conn{Conn: c, srv: s, gone: make(chan struct{})}
	k.x.conn = k
	return k
}

func (c *conn) enter(p phase) {
	c.since.Store(c.srv.tick.Load())
	c.phase.Store(int32(p))
}

// Read notes that a request has begun.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard = c.heard || n > 0
	if n > 0 && phase(c.phase.Load()) == idle {
		c.since.Store(c.srv.tick.Load())
		c.phase.CompareAndSwap(int32(idle), int32(heading))
	}
	return n, err
}

// Write sends in pieces, so that the watcher sees the progress of a slow reader.
func (c *conn) Write(b []byte) (int, error) {
	const piece = 1 << 20
	if len(b) <= piece {
		return c.Conn.Write(b)
	}
	sent := 0
	for sent < len(b) {
		n, err := c.Conn.Write(b[sent:min(len(b), sent+piece)])
		sent += n
		if err != nil {
			return sent, err
		}
		c.since.Store(c.srv.tick.Load())
	}
	return sent, nil
}

// finished is called when the reply was handed to the connection, and when the connection ends.
func (c *conn) finished() {
	if c.reply != nil {
		c.reply.Release()
		c.reply = nil
	}
}

// Close closes the connection, after the client had a moment to read a reply that it may not have waited for.
func (c *conn) Close() error {
	if c.linger {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) // a closed connection reads EOF anyway
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)       // whatever comes, the connection ends now
		}
	}
	return c.Conn.Close()
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// leave tells the handler that nobody waits for its answer.
func (c *conn) leave() { c.once.Do(func() { close(c.gone) }) }

// Deadline, Done, Err and Value make the connection the context of its request.
func (c *conn) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the client is gone.
func (c *conn) Done() <-chan struct{} { return c.gone }

// Err tells whether the client is gone.
func (c *conn) Err() error {
	select {
	case <-c.gone:
		return context.Canceled
	default:
		return nil
	}
}

// Value holds nothing.
func (c *conn) Value(any) any { return nil }

// bodyReader reads a request's body and notes the progress, so that only a client that stops sending is cut off.
type bodyReader struct {
	io.Reader
	c *conn
}

// Read reads and notes the progress.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.c.since.Store(b.c.srv.tick.Load())
	return n, err
}
