package h2

import (
	"context"
	"time"

	"nereid/engine/tensor"
)

// Inline serves the unary calls of one method without a goroutine for each. None of its methods may block: Accept and
// Begin hold up the connection's reader, Resume its writer. Begin and Resume of one call never run at the same time.
type Inline interface {
	// Accept is called when a call's headers have come, before its message is read. An error ends the call with it. ctx
	// has the call's metadata and peer; it ends with the connection, not with the call.
	Accept(ctx context.Context) error
	// Begin is given a call's message, and owns the reference on msg. It either ends the call with Finish, or keeps its
	// state in s.Value and calls s.Wake, from any goroutine, when Resume has something to do.
	Begin(s *Stream, msg *tensor.Buffer)
	// Resume is called after Wake, and when s.Err is not nil any more: the client or the deadline has ended the call.
	// It must then release what the call holds, and call Finish all the same.
	Resume(s *Stream)
}

// inlineCalls are the inline calls of a connection that are to be resumed. conn.mu guards it.
type inlineCalls struct {
	running  int       // calls that have begun and not finished
	ready    []*Stream // to be resumed
	spare    []*Stream // the other slice for ready
	wakeup   chan struct{}
	sleeping bool // the writer waits for wakeup
	byReader bool // the reader is doing the writer's work
}

// inlineState is the state of an inline call. conn.mu guards it.
type inlineState struct {
	timer   *time.Timer // at the deadline
	begun   bool        // the call's message is complete: Begin is called with it, unless it is unread
	unread  bool        // the message could not be decompressed
	running bool        // Begin or Resume is running
	again   bool        // Resume is to be called when that has returned
	ready   bool        // in inlineCalls.ready
}

// push puts a call into ready, and reports whether the writer is to be woken.
func (q *inlineCalls) push(s *Stream) bool {
	switch {
	case s.finished || s.inline.ready:
		return false
	case s.inline.running:
		s.inline.again = true
		return false
	}
	s.inline.ready = true
	q.ready = append(q.ready, s)
	return true
}

// runWriter is the writer: it resumes inline calls and writes frames. It ends when the connection is closed and the
// last inline call has finished.
func (c *conn) runWriter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case len(c.inline.ready) > 0:
			c.resumeAll()
		case !c.closed && !c.write.active && (!c.out.empty() || c.life.hangUp):
			c.flush()
		case c.closed && c.inline.running == 0:
			return
		default:
			c.inline.sleeping = true
			c.mu.Unlock()
			<-c.inline.wakeup
			c.mu.Lock()
		}
	}
}

// wakeWriter makes the writer look for work. c.mu is held.
func (c *conn) wakeWriter() {
	if !c.inline.sleeping || c.inline.byReader {
		return
	}
	c.inline.sleeping = false
	c.inline.wakeup <- struct{}{} // does not block: the channel holds one, and one is sent per sleep
}

// writeFromReader does the writer's work on the reader, which is about to wait for the client. The answer to a lone
// call then needs no switch of goroutines. What the socket does not take at once is left to the writer. c.mu is held,
// but unlocked while calls run and while it writes.
func (c *conn) writeFromReader() {
	if len(c.inline.ready) == 0 && (c.out.empty() || c.write.active) {
		return
	}
	c.inline.byReader = true
	for len(c.inline.ready) > 0 {
		c.resumeAll()
	}
	c.tryFlush()
	c.inline.byReader = false
	if len(c.inline.ready) > 0 || !c.write.active && !c.out.empty() || c.life.hangUp || c.closed {
		c.wakeWriter()
	}
}

// resumeAll resumes the calls that are ready. c.mu is held, but unlocked while a call runs.
func (c *conn) resumeAll() {
	q := &c.inline
	list := q.ready
	q.ready, q.spare = q.spare[:0], nil
	for _, s := range list {
		s.inline.ready, s.inline.running = false, true
	}
	c.mu.Unlock()
	for i, s := range list {
		list[i] = nil
		s.req.method.inline.Resume(s)
		c.mu.Lock()
		c.returned(s, true)
		c.mu.Unlock()
	}
	c.mu.Lock()
	q.spare = list[:0]
}

// resume has an inline call resumed. c.mu is held.
func (c *conn) resume(s *Stream) {
	if c.inline.push(s) {
		c.wakeWriter()
	}
}

// returned notes that Begin or Resume has returned. wake: if the call is to be resumed again, wake the writer at once
// rather than leave the call to the reader. c.mu is held.
func (c *conn) returned(s *Stream, wake bool) {
	s.inline.running = false
	if s.finished {
		s.recycle()
		return
	}
	if s.inline.again {
		s.inline.again = false
		if c.inline.push(s) && wake {
			c.wakeWriter()
		}
	}
}

// bigMessage is the size from which an inline call's message is not decoded on the reader.
const bigMessage = 64 << 10

// begin gives an inline call its message. What would keep the reader for long runs on a goroutine.
func (c *conn) begin(s *Stream) {
	msg, flag := s.recv.first, s.recv.flag
	s.recv.first = nil
	if len(msg.Bytes()) < bigMessage && flag == 0 {
		s.req.method.inline.Begin(s, msg)
		c.mu.Lock()
		c.returned(s, c.srv.now()-c.reader.lastRead.Load() > int64(maxResumeDelay))
		c.mu.Unlock()
		return
	}
	c.handlers.Go(func() {
		msg, err := s.unpack(msg, flag)
		if err != nil {
			c.mu.Lock()
			s.inline.unread = true
			c.mu.Unlock()
			s.Finish(nil, err)
		} else {
			s.req.method.inline.Begin(s, msg)
		}
		c.mu.Lock()
		c.returned(s, true)
		c.mu.Unlock()
	})
}

// expire ends an inline call at its deadline.
func (c *conn) expire(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.finished || !s.open {
		return
	}
	s.err = statusDeadline
	if s.inline.begun {
		c.resume(s)
		return
	}
	c.finish(s, s.err)
	c.wakeWriter()
}

// recycle keeps an inline call's object for another call if nothing refers to it any more. conn.mu is held.
func (s *Stream) recycle() {
	if s.open || s.inline.ready || s.inline.running || s.inline.timer != nil || s.send.blocked || !s.remoteClosed ||
		s.call != nil {
		return
	}
	*s = Stream{send: sendState{queue: s.send.queue[:0]}}
	streams.Put(s)
}
