package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
	"nereid/engine/trace"
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
	parking               // idle, and its goroutine is to leave it
	parked                // no goroutine serves it
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

	x      *exchange      // nil while it is parked
	reply  *tensor.Buffer // the reply that is being written
	trace  *trace.Trace   // of the request, nil for nearly all
	heard  bool           // the client has sent something
	fresh  bool           // the library has just taken it over and has no request of it
	ended  bool           // the client has closed its side, and everything before that was read
	linger bool           // the client may still be sending: let it read the reply before the connection is reset

	parkable atomic.Bool     // it may be parked
	raw      syscall.RawConn // of the descriptor below; guarded by Server.mu, as is the next
	fd       int             // while it is parked
}

var _ context.Context = (*conn)(nil)

func newConn(s *Server, c net.Conn) *conn {
	k := &conn{Conn: c, srv: s, gone: make(chan struct{})}
	_, secure := c.(interface{ NetConn() net.Conn })
	k.parkable.Store(!secure) // an interrupted TLS handshake could not go on: not before the first request
	return k
}

// attach gives the connection what it needs for requests, detach takes it back.
func (c *conn) attach() {
	c.x = c.srv.exchanges.Get().(*exchange)
	c.x.conn = c
	c.fresh = true
}

func (c *conn) detach() {
	x := c.x
	c.x = nil
	x.reset()
	x.conn, x.headers = nil, nil
	c.srv.exchanges.Put(x)
}

func (c *conn) enter(p phase) {
	c.since.Store(c.srv.tick.Load())
	c.phase.Store(int32(p))
}

// Read notes that a request has begun.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 {
		c.ended = err == io.EOF
		return 0, c.readNothing(err)
	}
	if err == io.EOF { // TLS says so beside the last bytes, and again if it is asked
		err = nil
	}
	if !c.heard {
		c.heard = true
		c.parkable.Store(true)
		if b[0] == handshakeRecord {
			return 0, errTLS // no line of it ends soon: the client would wait until the header's time is over
		}
	}
	c.begin()
	return n, err
}

// begin notes that there are bytes of the next request.
func (c *conn) begin() {
	switch phase(c.phase.Load()) {
	case idle:
		c.since.Store(c.srv.tick.Load())
		if c.phase.CompareAndSwap(int32(idle), int32(heading)) {
			return
		}
		if phase(c.phase.Load()) != parking {
			return
		}
	case parking:
	default:
		return
	}
	// The watcher was about to end this read. It does so under the lock.
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	c.since.Store(c.srv.tick.Load())
	c.phase.Store(int32(heading))
	_ = c.Conn.SetReadDeadline(time.Time{}) // fails only if the connection is closed
}

// readNothing is what the library is told of a read that gave nothing: if the connection is to be parked, that it ended.
func (c *conn) readNothing(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && c.phase.CompareAndSwap(int32(parking), int32(parked)) {
		return io.EOF
	}
	return err
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
	if c.trace != nil {
		c.trace.Mark(trace.HTTPSendEnd, infer.Now())
		c.trace.End()
		c.trace = nil
	}
	if c.x != nil {
		c.x.big.release()
	}
}

// Close closes the connection, after the client had a moment to read a reply that it may not have waited for. A parked
// connection stays open: the library closes what it was told has ended.
func (c *conn) Close() error {
	if phase(c.phase.Load()) == parked {
		return nil
	}
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
	c       *conn
	chunked bool
	end     error // what ended it
}

// Read reads and notes the progress. Once it has failed it fails for ever: the library would take what follows a chunked
// body for another chunk, and it takes the connection's end for the last chunk.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.chunked && b.c.ended {
		err = io.ErrUnexpectedEOF
	}
	b.end = err
	b.c.since.Store(b.c.srv.tick.Load())
	return n, err
}
