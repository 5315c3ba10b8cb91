package h2

import (
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// data reads a DATA frame. Its bytes become messages of the call, or are skipped if the call has ended.
func (r *reader) data(h frameHead) error {
	if h.id == 0 {
		return protocolError("DATA on stream 0")
	}
	n, pad := h.length, 0
	if h.flags&flagPadded != 0 {
		if n == 0 {
			return &connError{codeFrameSize, "a padded frame without a pad length"}
		}
		if err := r.skip(1); err != nil {
			return err
		}
		pad = int(r.buf[r.next-1])
		n--
		if pad > n {
			return protocolError("padding as long as the frame")
		}
		n -= pad
	}
	endStream := h.flags&flagEndStream != 0
	s, err := r.takeWindow(h, endStream, n)
	if err != nil {
		return err
	}
	if err := r.body(s, n); err != nil {
		return err
	}
	if err := r.skip(pad); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	s.recv.uncredited += h.length - n // the padding; body has counted the rest
	s.recv.bytes += int64(n)
	if endStream {
		r.ended(s)
		return nil
	}
	if within := s.recv.msg.partial(); within != s.within.Load() {
		s.within.Store(within)
	}
	r.creditPartial(s)
	return nil
}

// takeWindow takes a DATA frame from the windows and returns its stream, nil if the frame is to be skipped.
func (r *reader) takeWindow(h frameHead, endStream bool, n int) (*Stream, error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id > c.lastID || h.id%2 == 0 {
		return nil, protocolError("DATA on an idle stream")
	}
	if h.length > c.recv.left {
		return nil, &connError{codeFlowControl, "more DATA than the connection's window allows"}
	}
	c.recv.left -= h.length
	c.recv.uncredited += h.length
	c.creditConn()
	if n == 0 && !endStream {
		if err := r.limits.emptyFrame(); err != nil {
			return nil, err
		}
	}
	s := c.streams[h.id]
	r.at = s
	switch {
	case s == nil:
		c.out.b = appendWords(c.out.b, frameReset, h.id, uint32(codeStreamClosed))
		return nil, r.limits.lateData()
	case s.remoteClosed:
		c.reset(s, codeStreamClosed, statusMalformed)
		return nil, nil
	case h.length > s.recvWindow:
		c.reset(s, codeFlowControl, statusMalformed)
		return nil, nil
	}
	s.recvWindow -= h.length
	if s.recv.arrived += n; endStream || s.recv.arrived >= s.recv.msg.wanted() {
		s.recv.arrived = 0
		s.moved()
	}
	return s, nil
}

// body reads n bytes of a call's messages. If s is nil, it skips them.
func (r *reader) body(s *Stream, n int) error {
	for n > 0 {
		if r.next == r.end {
			if room := r.direct(s, n); room != nil {
				k, err := r.read(room)
				n -= k
				r.filled(s, k)
				if err != nil {
					return err
				}
				continue
			}
			if err := r.fill(1); err != nil {
				return err
			}
		}
		p := r.buf[r.next:min(r.end, r.next+n)]
		r.next += len(p)
		n -= len(p)
		if s != nil && s.req.refusal == nil && !r.feed(s, p) {
			s = nil
		}
	}
	return nil
}

// direct returns memory of the message that is being received, into which up to n bytes can be read without the
// reader's buffer. It returns nil for few bytes.
func (r *reader) direct(s *Stream, n int) []byte {
	if s == nil || n < copyBelow {
		return nil
	}
	room, err := s.recv.msg.room(r.c.srv.o.Pool)
	if err != nil || len(room) < copyBelow { // feed sees the error again
		return nil
	}
	return room[:min(n, len(room))]
}

// filled counts n bytes that were read into the memory that direct returned.
func (r *reader) filled(s *Stream, n int) {
	m := &s.recv.msg
	m.filled += n
	s.recv.uncredited += n
	if m.filled == m.size {
		r.message(s)
	}
}

// feed makes messages of p, bytes of the call s. It returns false if it refused the call.
func (r *reader) feed(s *Stream, p []byte) bool {
	o := &r.c.srv.o
	for len(p) > 0 {
		rest, done, err := s.recv.msg.feed(p, o.MaxReceiveBytes, o.Pool, r.mayReserve)
		s.recv.uncredited += len(p) - len(rest)
		if err != nil {
			r.refuse(s, err)
			return false
		}
		if p = rest; done {
			r.message(s)
		}
	}
	return true
}

// message takes over a whole message from s.recv.msg.
func (r *reader) message(s *Stream) {
	c := r.c
	flag := s.recv.msg.flag
	r.reserved -= s.recv.msg.reserved
	b := s.recv.msg.take()
	if s.call == nil {
		if s.recv.first == nil {
			s.recv.first, s.recv.flag = b, flag
			return
		}
		b.Release()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.inline.begun {
			c.finish(s, grpcstatus.Error(codes.Internal,
				"cardinality violation: received multiple request messages for non-client-streaming RPC"))
		}
		return
	}
	m := received{b, flag, s.recv.uncredited}
	s.recv.uncredited = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.finished || !s.open {
		b.Release()
		return
	}
	s.call.messages = append(s.call.messages, m)
	c.recv.unread += len(b.Bytes())
	s.call.notify()
}

// refuse ends a call whose message is too large, or for which there is no memory. What follows is skipped.
func (r *reader) refuse(s *Stream, why error) {
	c := r.c
	err := grpcstatus.Error(codes.ResourceExhausted, why.Error())
	if why == errTooLarge { //nolint:errorlint // our own, never wrapped
		err = grpcstatus.Errorf(codes.ResourceExhausted,
			"grpc: received message larger than max (%d vs. %d)", s.recv.msg.size, c.srv.o.MaxReceiveBytes)
	}
	s.recv.msg.drop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(s, err)
	if s.call != nil {
		s.call.fault = err
		s.call.cancel()
		s.call.notify()
	}
}

// ended handles END_STREAM: the client sends no more messages of this call.
func (r *reader) ended(s *Stream) {
	c := r.c
	c.mu.Lock()
	s.remoteClosed = true
	switch {
	case !s.open:
	case s.req.length >= 0 && s.recv.bytes != s.req.length:
		c.reset(s, codeProtocol, statusMalformed)
	case s.req.refusal != nil:
		c.finish(s, s.req.refusal.Err())
	case s.call != nil:
		if s.recv.msg.partial() {
			s.call.fault = statusPartial
		}
		s.call.notify()
	case s.recv.msg.partial():
		c.finish(s, statusPartial)
	case s.recv.first == nil:
		c.finish(s, statusNoMessage)
	case !s.finished:
		s.inline.begun, s.inline.running = true, true
		c.inline.running++
		c.mu.Unlock()
		c.begin(s)
		return
	}
	s.recv.drop()
	c.mu.Unlock()
}

var (
	statusPartial   = grpcstatus.Error(codes.Internal, "grpc: the call ends within a message")
	statusNoMessage = grpcstatus.Error(codes.Internal,
		"cardinality violation: received no request message from non-client-streaming RPC")
)

// creditPartial returns to the stream's window the bytes of a message that is not complete. A handler credits only
// complete messages, so without this the client could not send the rest of a message larger than the window.
func (r *reader) creditPartial(s *Stream) {
	if s.recv.uncredited < streamWindow/4 {
		return
	}
	r.c.mu.Lock()
	n := s.recv.uncredited
	s.recv.uncredited = 0
	r.c.creditStream(s, n)
	r.c.mu.Unlock()
}

// credit returns to the windows what a message took.
func (c *conn) credit(s *Stream, got received) {
	c.recv.unread -= len(got.buf.Bytes())
	c.creditStream(s, got.credit)
	c.creditConn()
}

// creditStream returns n bytes to the stream's window, in portions.
func (c *conn) creditStream(s *Stream, n int) {
	s.heldCredit += n
	if s.heldCredit < streamWindow/4 || !s.open || s.remoteClosed {
		return
	}
	c.out.b = appendWords(c.out.b, frameWindowUpdate, s.id, uint32(s.heldCredit))
	s.recvWindow += s.heldCredit
	s.heldCredit = 0
}

// creditConn returns received bytes to the connection's window, in portions, unless handlers have too much to read.
func (c *conn) creditConn() {
	w := &c.recv
	if w.uncredited < connWindow/4 || w.unread > maxUnread {
		return
	}
	c.out.b = appendWords(c.out.b, frameWindowUpdate, 0, uint32(w.uncredited))
	w.left += w.uncredited
	w.uncredited = 0
}
