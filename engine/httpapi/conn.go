package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// phase is what a connection is doing.
type phase int32

const (
	idle        phase = iota // between requests
	readingHead              // the header of a request is arriving
	readingBody              // the body of a request is arriving
	handling                 // the request is being handled
	writing                  // the reply is being sent
	closed                   // closed because the server is shutting down
	releasing                // idle, and its goroutine is to end
	polled                   // no goroutine serves it
)

// conn is a client's connection. It is also the context of the request that it carries: done when the client left. One
// goroutine serves it. The watcher only reads its atomic fields, ends its reads and cancels the request.
type conn struct {
	net.Conn
	set   *connections
	phase atomic.Int32
	// since is the tick at which the phase began, or at which there was last progress in it.
	since atomic.Int64
	left  chan struct{} // closed by cancel
	once  sync.Once     // closes left

	x      *exchange      // nil while it is polled
	reply  *tensor.Buffer // the reply that is being written
	held   int64          // bytes of outputs that belong to it, counted in Options.Memory
	trace  *trace.Trace   // of the request; nil for nearly all
	record *requests.Active
	came   infer.Stamp // the first bytes of the request; 0 if nothing is recorded
	fresh  bool        // the HTTP library has just taken it over and has no request of it
	ended  bool        // the client closed its side, and everything before that was read
	linger int64       // the client may still be sending: read so many MiB, so that the client can read the reply

	// Of a body, arrived are the bytes since the last progress, and wanted is how many of them are progress. early: the
	// library reads it, and its length is not known yet.
	arrived, wanted int64
	early           bool

	heard    atomic.Bool // the client has sent something
	headTail []byte      // the last two bytes of a header that is arriving in pieces
	pollable atomic.Bool
	raw      syscall.RawConn // of the descriptor; guarded by connections.mu, as is the next
	fd       int             // while it is polled
}

var _ context.Context = (*conn)(nil)

func newConn(cs *connections, c net.Conn) *conn {
	k := &conn{Conn: c, set: cs, left: make(chan struct{})}
	_, secure := c.(interface{ NetConn() net.Conn })
	k.pollable.Store(!secure) // with TLS not before the first request: an interrupted handshake could not go on
	return k
}

// enter begins a phase.
func (c *conn) enter(p phase) {
	c.progress()
	c.phase.Store(int32(p))
}

// progress restarts the time of the phase.
func (c *conn) progress() { c.since.Store(c.set.ticks.Load()) }

// Read notes that a request has begun.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 {
		c.ended = err == io.EOF
		return 0, c.readNothing(err)
	}
	if err == io.EOF { // TLS reports it with the last bytes, and again at the next read
		err = nil
	}
	if !c.heard.Load() {
		c.heard.Store(true)
		c.pollable.Store(true)
		if b[0] == handshakeRecord {
			return 0, errTLS // no line of it ends: the client would wait until the header's time is over
		}
	}
	c.begin()
	switch phase(c.phase.Load()) {
	case readingHead:
		c.followHead(b[:n])
	case readingBody:
		c.arrive(int64(n))
	}
	return n, err
}

// arrive counts bytes of a body.
func (c *conn) arrive(n int64) {
	if c.arrived += n; c.arrived < c.wanted {
		return
	}
	c.progress()
	c.arrived = 0
	if c.early {
		c.wanted *= 2
	}
}

// expect begins the body of a request with a length, -1 if that is not known. A body of up to 1 MiB must arrive within
// 16 times StallTimeout. Longer ones, and those of unknown length, have a least rate.
func (c *conn) expect(length int64) {
	c.enter(readingBody)
	c.arrived, c.wanted, c.early = 0, unknownProgress, false
	if length >= 0 {
		c.wanted = min(length/16, mostProgress)
	}
}

// followHead looks for the empty line that ends a header. What follows has the time of a body: the library reads the
// first bytes of a body before it calls the handler. Of these, each progress needs twice as many as the one before.
func (c *conn) followHead(b []byte) {
	const end = "\n\r\n"
	if bytes.Contains(b, []byte(end)) || bytes.Contains(append(c.headTail, b[:min(len(b), 2)]...), []byte(end)) {
		c.headTail = c.headTail[:0]
		c.expect(0)
		c.wanted, c.early = 1, true
		return
	}
	c.headTail = append(c.headTail, b[max(0, len(b)-2):]...) // the end may be in two reads
	c.headTail = c.headTail[max(0, len(c.headTail)-2):]
}

// begin notes that there are bytes of the next request.
func (c *conn) begin() {
	switch phase(c.phase.Load()) {
	case idle:
		c.progress()
		if c.set.opt.Requests != nil {
			c.came = infer.Now()
		}
		if c.phase.CompareAndSwap(int32(idle), int32(readingHead)) {
			return
		}
		if phase(c.phase.Load()) != releasing {
			return
		}
	case releasing:
	default:
		return
	}
	// The watcher was about to end this read. It does so under the lock.
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	c.enter(readingHead)
	_ = c.Conn.SetReadDeadline(time.Time{}) // fails only if the connection is closed
}

// readNothing returns the error of a read that gave nothing. If the connection is to be polled, the HTTP library is
// notified that it ended.
func (c *conn) readNothing(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && c.phase.CompareAndSwap(int32(releasing), int32(polled)) {
		return io.EOF
	}
	return err
}

// Write sends in pieces, so that the watcher sees that a slow reader makes progress.
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
		c.progress()
	}
	return sent, nil
}

// finished is called when the reply was written, and when the connection ends.
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
	if c.record != nil {
		c.record.Sent()
		c.record = nil
	}
	if c.x != nil {
		c.x.large.Release()
	}
	if c.held > 0 {
		c.set.opt.Memory.Give(c.held)
		c.held = 0
	}
}

// Close closes the connection. If the client may not have waited for its reply, it gets a moment to read it. A
// connection that is to be polled stays open: the HTTP library was notified that it ended.
func (c *conn) Close() error {
	if phase(c.phase.Load()) == polled {
		return nil
	}
	if c.linger > 0 {
		c.finished() // what belongs to the request does not wait for the client
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			c.readOn()
		}
	}
	return c.Conn.Close()
}

// readOn reads what the client still sends, after an early reply. The client must send a MiB in each lingerTime.
func (c *conn) readOn() {
	for range c.linger {
		_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) // a closed connection reads EOF anyway
		if _, err := io.CopyN(io.Discard, c.Conn, 1<<20); err != nil || c.set.closing.Load() {
			return
		}
	}
}

// How many MiB the server reads after an early reply. Many clients read no reply before they have sent the whole body.
const (
	lingerFault  = 1 // the request could not be read
	lingerDenied = 16
	lingerLong   = 256
)

// cancel makes the handler stop: nobody waits for its answer.
func (c *conn) cancel() { c.once.Do(func() { close(c.left) }) }

// Deadline returns none: a request ends by the engine's timeouts.
func (c *conn) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the client left.
func (c *conn) Done() <-chan struct{} { return c.left }

// Err reports whether the client left.
func (c *conn) Err() error {
	select {
	case <-c.left:
		return context.Canceled
	default:
		return nil
	}
}

// Value returns nil: there are no values.
func (c *conn) Value(any) any { return nil }

// bodyReader reads a request's body.
type bodyReader struct {
	io.Reader
	c       *conn
	chunked bool
	end     error // what ended it
	n       int64 // bytes read
}

// Read reads. After an error it returns the same error forever: the library would take what
// follows a chunked body for another chunk. It also takes the connection's end for the last chunk, which is corrected.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.chunked && b.c.ended {
		err = io.ErrUnexpectedEOF
	}
	b.end = err
	b.n += int64(n)
	return n, err
}
