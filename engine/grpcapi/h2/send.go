package h2

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
)

// All in this file runs with c.mu held. It appends to c.out; flush writes.

// flush writes what is waiting, unless somebody is writing: he will. c.mu is let go while it writes, and held again when
// it returns. So many goroutines' answers go out in one write without one of them waiting for a turn.
func (c *conn) flush() {
	if c.writing {
		return
	}
	c.writing = true
	for !c.dead && !c.out.empty() {
		out := c.out
		c.out, c.spare = c.spare, nil
		c.mu.Unlock()
		err := out.write(c.nc)
		out.reset()
		c.mu.Lock()
		c.spare = out
		if err != nil {
			c.die()
			break
		}
		c.unblock()
		if c.stalled {
			c.stalled = false
			c.drained.Broadcast()
		}
	}
	if c.dead || c.out.empty() {
		c.out.reset() // of owners, too
	}
	c.writing = false
	if c.stalled {
		c.stalled = false
		c.drained.Broadcast()
	}
	if c.leaving && !c.dead {
		c.hangUp()
	}
}

// flushNow writes what is waiting, if that is little and nobody is writing, as far as the socket takes it at once. c.mu is
// let go meanwhile.
func (c *conn) flushNow() {
	out := c.out
	if c.socket == nil || c.writing || c.dead || len(out.pieces) > 0 || len(out.b) == 0 || len(out.b) > flushNowMax {
		return
	}
	c.writing = true
	c.out, c.spare = c.spare, nil
	c.mu.Unlock()
	n, err := c.socket.TryWrite(out.b)
	if err == nil && n == len(out.b) {
		out.reset()
	}
	c.mu.Lock()
	c.writing = false
	switch {
	case err != nil:
		out.reset()
		c.spare = out
		c.die()
		return
	case n < len(out.b): // not after the reset
		out.b = out.b[:copy(out.b, out.b[n:])]
		out.join(c.out)
		c.out, out = out, c.out
	}
	c.spare = out
	if c.dead {
		c.out.reset()
		return
	}
	c.unblock()
	if c.stalled {
		c.stalled = false
		c.drained.Broadcast()
	}
}

// flushNowMax is well below what the socket of a client that reads has room for.
const flushNowMax = 32 << 10

// unblock goes on with calls that waited for the connection's window or for room.
func (c *conn) unblock() {
	if len(c.blocked) == 0 {
		return
	}
	list := c.blocked
	c.blocked = nil
	for _, s := range list {
		s.blocked = false
		if s.present {
			c.push(s)
		}
	}
}

// seal makes frames of the header block that lies at c.out.b[from:], after room for one head.
func (c *conn) seal(from int, id uint32, flags byte) {
	b := c.out.b
	n := len(b) - from - headSize
	if n <= c.peerFrame {
		appendHead(b[from:from], n, frameHeaders, flags|flagEndHeaders, id)
		c.noted()
		return
	}
	block := append([]byte(nil), b[from+headSize:]...)
	b = b[:from]
	kind := byte(frameHeaders)
	for len(block) > 0 {
		k := min(len(block), c.peerFrame)
		f := flags
		if k == len(block) {
			f |= flagEndHeaders
		}
		b = append(appendHead(b, k, kind, f, id), block[:k]...)
		block, kind, flags = block[k:], frameContinuation, 0
	}
	c.out.b = b
	c.noted()
}

// noted: something of a call goes out, so that pings are no nuisance.
func (c *conn) noted() { c.pingsFree = true }

var noHead [headSize]byte

func (c *conn) sendHeaders(s *Stream) {
	if s.headers {
		return
	}
	s.headers = true
	from := len(c.out.b)
	b := c.enc.headers(append(c.out.b, noHead[:]...))
	if s.encoding != "" {
		b = appendField(b, "grpc-encoding", s.encoding)
	}
	c.out.b = appendMetadata(b, s.header)
	c.seal(from, s.id, 0)
}

// sendSmall appends a message of at most copyBelow bytes that is not compressed, by copying.
func (c *conn) sendSmall(s *Stream, msg []byte) {
	n := prefixSize + len(msg)
	if s.queued > 0 || int64(n) > min(s.window, c.window) || c.out.size+len(c.out.b) > maxUnsent {
		c.sendMessage(s, mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), msg...))}, 0)
		return
	}
	b := appendHead(c.out.b, n, frameData, 0, s.id)
	b = append(b, 0, byte(len(msg)>>24), byte(len(msg)>>16), byte(len(msg)>>8), byte(len(msg)))
	c.out.b = append(b, msg...)
	s.window -= int64(n)
	c.window -= int64(n)
	c.noted()
}

// sendMessage queues a message, whose references it takes, and sends what the windows allow.
func (c *conn) sendMessage(s *Stream, msg mem.BufferSlice, flag byte) {
	if c.dead || !s.present || s.end != nil {
		msg.Free()
		return
	}
	c.sendHeaders(s)
	n := msg.Len()
	s.queue = append(s.queue, mem.SliceBuffer{flag, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	for _, b := range msg {
		if b.Len() == 0 {
			b.Free()
			continue
		}
		s.queue = append(s.queue, b)
	}
	s.queued += prefixSize + n
	c.push(s)
}

// push sends of a call's queue what the windows and the room allow, and its end after it.
func (c *conn) push(s *Stream) {
	for s.queued > 0 {
		if c.window <= 0 || c.out.size+len(c.out.b) > maxUnsent {
			if !s.blocked {
				s.blocked = true
				c.blocked = append(c.blocked, s)
			}
			return
		}
		n := int(min(int64(s.queued), s.window, c.window, int64(c.peerFrame)))
		if n <= 0 {
			return // until the stream's window opens
		}
		c.out.b = appendHead(c.out.b, n, frameData, 0, s.id)
		c.noted()
		s.window -= int64(n)
		c.window -= int64(n)
		s.queued -= n
		for n > 0 {
			n -= c.emit(s, n)
		}
	}
	s.queue, s.offset = s.queue[:0], 0
	if s.call != nil {
		select {
		case s.call.sent <- struct{}{}:
		default:
		}
	}
	if s.end != nil {
		c.sendEnd(s, s.end)
	}
}

// emit sends up to n bytes of the first buffer of a call's queue and returns how many.
func (c *conn) emit(s *Stream, n int) int {
	first := s.queue[0]
	data := first.ReadOnlyData()[s.offset:]
	whole := len(data) <= n
	if !whole {
		data = data[:n]
	}
	copied := c.copyAll || len(data) < copyBelow
	if copied {
		c.out.b = append(c.out.b, data...)
	} else {
		c.out.refer(data)
	}
	if !whole {
		s.offset += n
		return n
	}
	if copied && s.offset == 0 {
		first.Free()
	} else {
		c.out.owners = append(c.out.owners, first)
	}
	s.queue[0] = nil
	s.queue, s.offset = s.queue[1:], 0
	return len(data)
}

// finish ends a call's answer: when what is queued has gone, the trailers follow.
func (c *conn) finish(s *Stream, err error) {
	if s.done {
		return
	}
	s.done = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.began {
		c.inline--
	}
	if c.dead || !s.present {
		return
	}
	st := statusOK
	if err != nil {
		st = statusOf(err)
	}
	if s.queued > 0 {
		s.end = st
		return
	}
	c.sendEnd(s, st)
}

var statusOK = grpcstatus.New(codes.OK, "")

func statusOf(err error) *grpcstatus.Status {
	st, ok := grpcstatus.FromError(err)
	if !ok {
		st = grpcstatus.FromContextError(err)
	}
	return st
}

// sendEnd sends the trailers, or both headers and trailers in one if there was nothing before, and forgets the call.
func (c *conn) sendEnd(s *Stream, st *grpcstatus.Status) {
	switch {
	case s.req.http != 0 && !s.headers:
		c.sendHTTP(s, st)
		return
	case s.req.http != 0:
		c.out.b = appendHead(c.out.b, 0, frameData, flagEndStream, s.id)
		c.answered(s)
		return
	}
	from := len(c.out.b)
	b := append(c.out.b, noHead[:]...)
	if !s.headers {
		s.headers = true
		b = c.enc.headers(b)
		b = appendMetadata(b, s.header)
		if s.req.compression != "" && !canDecompress(s.req.compression) {
			b = appendField(b, "grpc-accept-encoding", "identity,deflate,gzip")
		}
	}
	b = c.enc.status(b, st)
	c.out.b = appendMetadata(b, s.trailer)
	c.seal(from, s.id, flagEndStream)
	c.answered(s)
}

// sendHTTP answers what is no gRPC call, for a person to read.
func (c *conn) sendHTTP(s *Stream, st *grpcstatus.Status) {
	text := "this port serves gRPC: " + st.Message() + "\n"
	from := len(c.out.b)
	b := append(c.out.b, noHead[:]...)
	b = appendPrefixed(c.enc.begin(b), 0x00, 4, staticStatus)
	b = appendText(b, threeDigits(s.req.http))
	b = appendText(appendPrefixed(b, 0x00, 4, staticContentType), "text/plain; charset=utf-8")
	c.out.b = c.enc.status(b, st)
	c.seal(from, s.id, 0)
	s.headers, s.end = true, st
	s.queue, s.queued = append(s.queue, mem.SliceBuffer(text)), len(text)
	c.push(s)
}

// answered forgets a call whose answer has gone out whole. A client that has not ended it need not send the rest.
func (c *conn) answered(s *Stream) {
	if !s.remoteEnd {
		c.out.b = appendWords(c.out.b, frameReset, s.id, uint32(codeNo))
	}
	c.forget(s)
}

func threeDigits(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

// reset ends a call with an RST_STREAM.
func (c *conn) reset(s *Stream, code errCode, err error) {
	c.out.b = appendWords(c.out.b, frameReset, s.id, uint32(code))
	c.abort(s, err)
}

// abort ends a call whose client has gone or broken the protocol: nothing of it is sent any more.
func (c *conn) abort(s *Stream, err error) {
	if s.err == nil {
		s.err = err
	}
	for i, b := range s.queue {
		if i == 0 && s.offset > 0 && (c.writing || !c.out.empty()) {
			c.out.owners = append(c.out.owners, b) // a part of it may be on its way
		} else {
			b.Free()
		}
		s.queue[i] = nil
	}
	s.queue, s.offset, s.queued = nil, 0, 0
	c.forget(s)
	switch {
	case s.call != nil:
		s.call.cancel()
	case s.began && !s.done:
		c.resume(s)
	}
}

// forget takes a call out of the connection's table.
func (c *conn) forget(s *Stream) {
	if !s.present {
		return
	}
	s.present = false
	delete(c.streams, s.id)
	if len(c.streams) > 0 {
		return
	}
	if c.srv.o.Keepalive.MaxConnectionIdle != forever {
		c.idleSince = time.Now()
	}
	if c.draining == drainLast {
		c.leaving = true
		c.wake()
	}
}

// credit gives back what a message took of the windows.
func (c *conn) credit(s *Stream, got received) {
	c.unread -= len(got.buf.Bytes())
	s.give(got.credit)
	c.creditConn()
}

// give returns n bytes to the stream's window, in portions. A message that is not complete keeps nothing back.
func (s *Stream) give(n int) {
	s.uncreditedHeld += n
	if s.uncreditedHeld < streamWindow/4 || !s.present || s.remoteEnd {
		return
	}
	s.c.out.b = appendWords(s.c.out.b, frameWindowUpdate, s.id, uint32(s.uncreditedHeld))
	s.recvWindow += s.uncreditedHeld
	s.uncreditedHeld = 0
}

// creditConn returns to the connection's window what has come, in portions, unless too much lies unread.
func (c *conn) creditConn() {
	if c.uncredited < connWindow/4 || c.unread > maxUnread {
		return
	}
	c.out.b = appendWords(c.out.b, frameWindowUpdate, 0, uint32(c.uncredited))
	c.recvWindow += c.uncredited
	c.uncredited = 0
}
