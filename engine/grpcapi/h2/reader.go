package h2

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
)

// reader is the part of a connection that only its reader goroutine uses. Its methods lock conn.mu where they touch
// what that guards.
type reader struct {
	c          *conn
	buf        []byte // buf[next:end] is unread
	next, end  int
	headers    *headerReader
	block      headerBlock
	settled    bool // the client's first settings have come
	atFrame    bool // the next bytes are the head of a frame
	limits     limits
	reserved   int                 // bytes reserved for messages that have not come whole, or more: see reserve
	mayReserve func(size int) bool // is reserve
	within     atomic.Bool         // more of a frame or of a header block must come; others read it
	left       []*Stream           // calls that ended before their messages had come; guarded by the connection's mu
	at         *Stream             // the call whose DATA frame is being read; guarded by the connection's mu
	lastRead   atomic.Int64        // when something came, in nanoseconds of the server's clock; others read it
}

// run reads frames until the connection ends. It returns a *connError for a fault of the client.
func (r *reader) run() error {
	if err := r.open(); err != nil {
		return err
	}
	for {
		r.atFrame = true
		if r.end-r.next < headSize {
			if err := r.fill(headSize); err != nil {
				return err
			}
		}
		r.atFrame = false
		h := parseHead(r.buf[r.next:])
		r.next += headSize
		if err := r.frame(h); err != nil {
			return err
		}
	}
}

// open sends the server's settings and reads the client's preface.
func (r *reader) open() error {
	c, o := r.c, &r.c.srv.o
	c.mu.Lock()
	b := appendHead(c.out.b, 4*6, frameSettings, 0, 0)
	b = appendSetting(b, settingMaxStreams, o.MaxConcurrentStreams)
	b = appendSetting(b, settingInitialWindow, streamWindow)
	b = appendSetting(b, settingMaxFrame, o.MaxFrameBytes)
	b = appendSetting(b, settingMaxHeaderList, o.MaxHeaderBytes)
	c.out.b = appendWords(b, frameWindowUpdate, 0, connWindow-initialWindow)
	c.mu.Unlock()
	if err := r.fill(len(preface)); err != nil {
		return err
	}
	if string(r.buf[:len(preface)]) != preface {
		return protocolError("the connection does not begin with HTTP/2's preface; " +
			"use gRPC or HTTP/2 with prior knowledge")
	}
	r.next = len(preface)
	return nil
}

// fill reads until buf[next:end] has at least n bytes.
func (r *reader) fill(n int) error {
	if r.next > 0 {
		r.end = copy(r.buf, r.buf[r.next:r.end])
		r.next = 0
	}
	if n > len(r.buf) {
		r.resize(n + headSize)
	}
	for r.end < n {
		k, err := r.read(r.buf[r.end:])
		r.end += k
		if err != nil && r.end < n {
			return err
		}
	}
	if r.end == len(r.buf) && len(r.buf) < maxBuffer { // the client sends faster than the server reads
		r.resize(4 * len(r.buf))
	}
	return nil
}

// resize makes a buffer of size bytes with what is unread.
func (r *reader) resize(size int) {
	b := make([]byte, size)
	r.next, r.end, r.buf = 0, copy(b, r.buf[r.next:r.end]), b
}

// read reads from the socket. Before that it has calls resumed and pending frames written. It waits while too many are
// pending: the server does not read from a client that does not read.
func (r *reader) read(b []byte) (int, error) {
	c := r.c
	if within := !r.atFrame || r.end > r.next || r.block.open; within != r.within.Load() {
		r.within.Store(within)
	}
	c.mu.Lock()
	if r.atFrame {
		r.at = nil
		r.releaseLeft()
	}
	c.writeFromReader()
	for !c.closed && len(c.out.b) > maxControl {
		c.write.waiting = true
		c.write.done.Wait()
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, io.ErrClosedPipe
	}
	n, err := c.nc.Read(b)
	if n > 0 {
		r.lastRead.Store(c.srv.now())
	}
	return n, err
}

// skip passes over n bytes.
func (r *reader) skip(n int) error {
	if r.end-r.next < n {
		if err := r.fill(n); err != nil {
			return err
		}
	}
	r.next += n
	return nil
}

// releaseLeft releases what calls received that have ended, except for the one whose frame is being read. The
// connection's mu is held.
func (r *reader) releaseLeft() {
	if len(r.left) == 0 {
		return
	}
	r.left = slices.DeleteFunc(r.left, func(s *Stream) bool {
		if s != r.at {
			s.recv.drop()
		}
		return s != r.at
	})
}

// reserve reports whether a message's whole buffer may be made before its bytes come. A connection may reserve as
// much as the window lets the client send.
func (r *reader) reserve(size int) bool {
	if size > connWindow-r.reserved { // the reservations of calls that have ended are still counted
		r.reserved = 0
		r.c.mu.Lock()
		for _, s := range r.c.streams {
			r.reserved += s.recv.msg.reserved
		}
		r.c.mu.Unlock()
		if size > connWindow-r.reserved {
			return false
		}
	}
	r.reserved += size
	return true
}

// frame handles a frame whose head has been read.
func (r *reader) frame(h frameHead) error {
	switch {
	case h.length > int(r.c.srv.o.MaxFrameBytes):
		text := fmt.Sprintf("a frame of %d bytes, more than SETTINGS_MAX_FRAME_SIZE allows", h.length)
		return &connError{codeFrameSize, text}
	case !r.settled && h.kind != frameSettings:
		return protocolError("the first frame is not SETTINGS")
	case r.block.open && (h.kind != frameContinuation || h.id != r.block.id):
		return protocolError("a header block is interrupted")
	case h.kind == frameData:
		return r.data(h)
	}
	if r.end-r.next < h.length {
		if err := r.fill(h.length); err != nil {
			return err
		}
	}
	p := r.buf[r.next : r.next+h.length]
	r.next += h.length
	if h.length > maxBuffer {
		defer func() { r.resize(max(maxBuffer, r.end-r.next)) }() // frames as large as this are rare
	}
	switch h.kind {
	case frameHeaders:
		return r.headersFrame(h, p)
	case frameContinuation:
		return r.continuation(h, p)
	case frameReset:
		return r.resetFrame(h, p)
	case frameSettings:
		return r.settingsFrame(h, p)
	case framePing:
		return r.ping(h, p)
	case frameGoAway:
		return r.goAway(h, p)
	case frameWindowUpdate:
		return r.windowUpdate(h, p)
	case framePriority:
		return r.priority(h, p)
	case framePush:
		return protocolError("a client pushes")
	}
	return r.limits.emptyFrame() // unknown frames are ignored
}
