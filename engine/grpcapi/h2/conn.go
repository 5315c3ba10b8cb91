package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/system/socket"
)

// conn is one connection.
type conn struct {
	srv     *Server
	nc      net.Conn
	ctx     context.Context // peer; ends with the connection
	cancel  context.CancelFunc
	socket  *socket.Conn // is nc, if that is one
	copyAll bool         // the socket gains nothing by pieces

	mayReserve func(size int) bool // c.reserve

	// Of the reader.
	in       []byte // in[r:w] is unread
	r, w     int
	headers  *headerReader
	block    blockState
	lastID   uint32 // the highest stream that the client has opened; changed with mu held
	settings bool   // the client's first have come
	calm     guards
	reserved int          // at least what streams have reserved for messages of which not all has come
	lastRead atomic.Int64 // when something came, in nanoseconds of the server's clock

	handlers sync.WaitGroup // goroutines of calls
	waker    chan struct{}  // capacity 1: the answerer has something to do
	gone     chan struct{}  // closed when the answerer has ended

	mu sync.Mutex // guards the rest, and what Stream says

	streams    map[uint32]*Stream
	inline     int       // calls that have begun and not finished
	ready      []*Stream // inline calls to be resumed
	readySpare []*Stream
	asleep     bool // the answerer waits for waker
	attended   bool // the reader is doing the answerer's work

	out, spare *output
	writing    bool
	stalled    bool // the reader waits for drained
	drained    *sync.Cond
	enc        encoder
	window     int64 // to send
	peerWindow int64 // of new streams
	peerFrame  int
	blocked    []*Stream // that wait for c.window or for room in out

	recvWindow int
	uncredited int
	unread     int // bytes of whole messages that no handler has taken

	pingsFree bool // a call's frames have gone out since the last ping
	dead      bool
	leaving   bool // hang up once all is written
	draining  drainState
	idleSince time.Time
	greeted   bool // the client's first settings have come
	timers    [timerCount]*time.Timer
}

// The timers of a connection.
const (
	timerAlive = iota
	timerIdle
	timerAge
	timerGrace
	timerDrain
	timerCount
)

// drainState is how far a graceful end has come.
type drainState int

const (
	drainNot   drainState = iota
	drainAsked            // the client has been told; calls it opened meanwhile are taken
	drainLast             // no new calls are taken
)

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		srv: s, nc: nc, in: make([]byte, 4<<10), waker: make(chan struct{}, 1), gone: make(chan struct{}),
		streams: map[uint32]*Stream{}, out: &output{}, spare: &output{},
		window: initialWindow, peerWindow: initialWindow, peerFrame: maxFrame, recvWindow: connWindow,
	}
	c.drained = sync.NewCond(&c.mu)
	c.mayReserve = c.reserve
	return c
}

// serve speaks with the client until one of them ends the connection, and waits for all that it started.
func (c *conn) serve() {
	defer close(c.gone)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.answer()
	}()
	err := c.read()
	var fault *connError
	if errors.As(err, &fault) {
		c.srv.o.Log.Debug("gRPC connection ended for its client's fault", "peer", c.nc.RemoteAddr().String(), "err", err)
		c.goAway(fault)
	}
	c.mu.Lock()
	c.die()
	c.mu.Unlock()
	c.cancel()
	<-answered
	c.handlers.Wait()
}

// die ends the connection: the socket closes, calls are cancelled. c.mu is held.
func (c *conn) die() {
	if c.dead {
		return
	}
	c.dead = true
	_ = c.nc.Close() // nothing can be done about it
	for _, t := range c.timers {
		if t != nil {
			t.Stop()
		}
	}
	gone := grpcstatus.Error(codes.Canceled, "the client's connection has ended")
	for _, s := range c.streams {
		c.abort(s, gone)
	}
	c.blocked = nil
	if !c.writing {
		c.out.reset()
	}
	c.drained.Broadcast()
	c.wake()
}

// answer is the goroutine that resumes inline calls and writes. It ends when the connection is dead and the last inline
// call has finished.
func (c *conn) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case len(c.ready) > 0:
			c.resumeAll()
		case !c.dead && !c.writing && (!c.out.empty() || c.leaving):
			c.flush()
		case c.dead && c.inline == 0:
			return
		default:
			c.asleep = true
			c.mu.Unlock()
			<-c.waker
			c.mu.Lock()
		}
	}
}

// attend does the answerer's work on the reader, which is about to wait for the client: a lone client's answer then costs
// no change of goroutines. What cannot be written at once it leaves to the answerer. c.mu is held, but not all the time.
func (c *conn) attend() {
	if len(c.ready) == 0 && (c.out.empty() || c.writing) {
		return
	}
	c.attended = true
	for len(c.ready) > 0 {
		c.resumeAll()
	}
	c.flushNow()
	c.attended = false
	if len(c.ready) > 0 || !c.writing && !c.out.empty() || c.leaving || c.dead {
		c.wake()
	}
}

// resumeAll resumes the calls that are ready. c.mu is held, but not while a call runs.
func (c *conn) resumeAll() {
	list := c.ready
	c.ready, c.readySpare = c.readySpare[:0], nil
	for _, s := range list {
		s.ready, s.busy = false, true
	}
	c.mu.Unlock()
	for i, s := range list {
		list[i] = nil
		c.srv.resume(s)
		c.mu.Lock()
		c.idle(s, true)
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.readySpare = list[:0]
}

// resume puts an inline call among those to be resumed. c.mu is held.
func (c *conn) resume(s *Stream) {
	if c.queue(s) {
		c.wake()
	}
}

// queue is resume but for the wake-up, if it reports that one is wanted.
func (c *conn) queue(s *Stream) bool {
	switch {
	case s.done || s.ready:
		return false
	case s.busy:
		s.again = true
		return false
	}
	s.ready = true
	c.ready = append(c.ready, s)
	return true
}

// idle notes that Begin or Resume of an inline call has returned, so that Resume may be called again. wake: now, not when
// the reader comes to it. c.mu is held.
func (c *conn) idle(s *Stream, wake bool) {
	s.busy = false
	if s.done {
		c.recycle(s)
		return
	}
	if s.again {
		s.again = false
		if c.queue(s) && wake {
			c.wake()
		}
	}
}

// wake has the answerer look. c.mu is held.
func (c *conn) wake() {
	if !c.asleep || c.attended {
		return
	}
	c.asleep = false
	c.waker <- struct{}{} // has room: one send for each time it falls asleep
}

// goAway tells the client why the connection ends, and gives it a second to read it.
func (c *conn) goAway(e *connError) {
	patience := time.Second
	deadline := time.Now().Add(patience)
	_ = c.nc.SetDeadline(deadline) // also ends a write that is stuck
	c.mu.Lock()
	for c.writing && !c.dead {
		c.stalled = true
		c.drained.Wait()
	}
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.appendGoAway(c.lastID, e.code, e.text)
	c.flush()
	c.mu.Unlock()
	c.closeWrite()
	// Closing a socket with unread bytes would take the GOAWAY away from the client.
	_, _ = io.CopyN(io.Discard, c.nc, 256<<10) // the connection ends in any case
}

func (c *conn) appendGoAway(last uint32, code errCode, text string) {
	c.out.b = appendHead(c.out.b, 8+len(text), frameGoAway, 0, 0)
	c.out.b = append(c.out.b, byte(last>>24), byte(last>>16), byte(last>>8), byte(last),
		byte(code>>24), byte(code>>16), byte(code>>8), byte(code))
	c.out.b = append(c.out.b, text...)
}

func (c *conn) closeWrite() {
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // the connection ends in any case
	}
}

// hangUp ends a connection that has nothing more to do: the client reads the end, and closes. c.mu is held.
func (c *conn) hangUp() {
	c.leaving = false
	c.closeWrite()
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Second)) // the reader ends then at the latest
}

// drain begins a graceful end: the client is told to open no more calls, and once it has surely heard, those it has
// opened are the last.
func (c *conn) drain(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.draining != drainNot {
		return
	}
	if !c.greeted { // it has nothing to lose
		c.die()
		return
	}
	c.draining = drainAsked
	c.appendGoAway(maxWindow, codeNo, why)
	c.out.b = appendHead(c.out.b, len(drainPing), framePing, 0, 0)
	c.out.b = append(c.out.b, drainPing...)
	c.after(timerDrain, time.Minute, c.drainLast)
	c.wake()
}

// drainPing is the payload of the ping whose answer says that the client has read the first GOAWAY.
const drainPing = "\x01\x06\x01\x08\x00\x03\x03\x09"

// drainLast is the second half of a graceful end.
func (c *conn) drainLast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.draining != drainAsked {
		return
	}
	c.draining = drainLast
	c.appendGoAway(c.lastID, codeNo, "graceful_stop")
	c.leaving = len(c.streams) == 0
	c.wake()
}

// reserve says whether a message's buffer may be made before its bytes come: on each connection as much as the window lets
// the client send. Only the reader calls it.
func (c *conn) reserve(size int) bool {
	if size > connWindow-c.reserved { // what ended calls had is still counted
		c.reserved = 0
		c.mu.Lock()
		for _, s := range c.streams {
			c.reserved += s.in.reserved
		}
		c.mu.Unlock()
		if size > connWindow-c.reserved {
			return false
		}
	}
	c.reserved += size
	return true
}

// fill reads until in[r:w] has at least n bytes.
func (c *conn) fill(n int) error {
	if c.r > 0 {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if n > len(c.in) {
		c.in = append(make([]byte, 0, n+headSize), c.in[:c.w]...)
		c.in = c.in[:cap(c.in)]
	}
	for c.w < n {
		if err := c.beforeRead(); err != nil {
			return err
		}
		k, err := c.nc.Read(c.in[c.w:])
		c.w += k
		if err != nil && c.w < n {
			return err
		}
		c.lastRead.Store(c.srv.now())
	}
	if c.w == len(c.in) && len(c.in) < maxBuffer { // it comes faster than it is taken
		c.in = append(make([]byte, 0, 4*len(c.in)), c.in...)
		c.in = c.in[:cap(c.in)]
	}
	return nil
}

// shrink gives back what a large frame that is not DATA needed.
func (c *conn) shrink() {
	rest := c.in[c.r:c.w]
	c.in = make([]byte, max(maxBuffer, len(rest)))
	c.r, c.w = 0, copy(c.in, rest)
}

// beforeRead has calls resumed and what waits for the socket written, and waits itself if it is too much: a client that does not read is
// not read either.
func (c *conn) beforeRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attend()
	for !c.dead && len(c.out.b) > maxControl {
		c.stalled = true
		c.drained.Wait()
	}
	if c.dead {
		return io.ErrClosedPipe
	}
	return nil
}

// open says hello: the server's settings, then the client's preface.
func (c *conn) open() error {
	o := &c.srv.o
	c.mu.Lock()
	b := appendHead(c.out.b, 4*6, frameSettings, 0, 0)
	b = appendSetting(b, settingMaxStreams, o.MaxConcurrentStreams)
	b = appendSetting(b, settingInitialWindow, streamWindow)
	b = appendSetting(b, settingMaxFrame, o.MaxFrameBytes)
	b = appendSetting(b, settingMaxHeaderList, o.MaxHeaderBytes)
	c.out.b = appendWords(b, frameWindowUpdate, 0, connWindow-initialWindow)
	c.mu.Unlock()
	if err := c.fill(len(preface)); err != nil {
		return err
	}
	if string(c.in[:len(preface)]) != preface {
		return protocolError("the connection does not begin with HTTP/2's preface; use gRPC or HTTP/2 with prior knowledge")
	}
	c.r = len(preface)
	return nil
}

// read is the goroutine that reads frames. It returns a *connError for what the client did wrong.
func (c *conn) read() error {
	if err := c.open(); err != nil {
		return err
	}
	for {
		if c.w-c.r < headSize {
			if err := c.fill(headSize); err != nil {
				return err
			}
		}
		h := parseHead(c.in[c.r:])
		c.r += headSize
		if err := c.frame(h); err != nil {
			return err
		}
	}
}

func (c *conn) frame(h frameHead) error {
	switch {
	case h.length > int(c.srv.o.MaxFrameBytes):
		return &connError{codeFrameSize, fmt.Sprintf("a frame of %d bytes, more than SETTINGS_MAX_FRAME_SIZE allows", h.length)}
	case !c.settings && h.kind != frameSettings:
		return protocolError("the first frame is not SETTINGS")
	case c.block.open && (h.kind != frameContinuation || h.id != c.block.id):
		return protocolError("a header block is interrupted")
	case h.kind == frameData:
		return c.data(h)
	}
	if c.w-c.r < h.length {
		if err := c.fill(h.length); err != nil {
			return err
		}
	}
	p := c.in[c.r : c.r+h.length]
	c.r += h.length
	if h.length > maxBuffer {
		defer c.shrink()
	}
	switch h.kind {
	case frameHeaders:
		return c.headersFrame(h, p)
	case frameContinuation:
		return c.continuation(h, p)
	case frameReset:
		return c.resetFrame(h, p)
	case frameSettings:
		return c.settingsFrame(h, p)
	case framePing:
		return c.ping(h, p)
	case frameGoAway:
		return c.goAwayFrame(h, p)
	case frameWindowUpdate:
		return c.windowUpdate(h, p)
	case framePriority:
		return c.priority(h, p)
	case framePush:
		return protocolError("a client pushes")
	}
	return c.calm.control(c.srv) // unknown frames are ignored
}
