package h2

import (
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

// All in this file runs with c.mu held. It appends frames to c.out; flush writes them.

// sendState is what a call sends.
type sendState struct {
	window          int64 // bytes of DATA that the client allows; may be negative
	queue           []mem.Buffer
	offset          int                // bytes of queue[0] that are sent
	queued          int                // bytes of queue that are not sent
	end             *grpcstatus.Status // sent after queue; nil: the call goes on
	header, trailer metadata.MD
	encoding        string // of the messages; "": none
	headersSent     bool
	blocked         bool // in conn.blocked
}

// flush writes the pending output, unless a goroutine is writing, which then writes it too. c.mu is unlocked while it
// writes, and held again when it returns. So the answers of many goroutines share a write, and none waits for its turn.
func (c *conn) flush() {
	if c.write.active {
		return
	}
	c.write.active = true
	for !c.closed && !c.out.empty() {
		out := c.swapOutput()
		c.mu.Unlock()
		err := out.write(c.nc, &c.write.pieces)
		out.reset()
		c.mu.Lock()
		c.write.spare = out
		if err != nil {
			c.close()
			break
		}
		c.unblock()
		c.writeDone()
	}
	if c.closed || c.out.empty() {
		c.out.reset() // releases owners, too
	}
	c.write.active = false
	c.writeDone()
	if c.life.hangUp && !c.closed {
		c.hangUp()
	}
}

// maxTryFlush is well below what the socket of a client that reads has room for.
const maxTryFlush = 32 << 10

// tryFlush writes the pending output if it is little and no goroutine is writing, as far as the socket takes it at
// once. c.mu is unlocked while it writes.
func (c *conn) tryFlush() {
	if c.socket == nil || c.write.active || c.closed {
		return
	}
	if n := len(c.out.b); n == 0 || n > maxTryFlush || len(c.out.pieces) > 0 {
		return
	}
	c.write.active = true
	out := c.swapOutput()
	c.mu.Unlock()
	n, err := c.socket.TryWrite(out.b)
	if err != nil || n == len(out.b) {
		out.reset()
	}
	c.mu.Lock()
	c.write.active = false
	if n < len(out.b) { // not after the reset
		out.b = out.b[:copy(out.b, out.b[n:])]
		out.join(c.out)
		c.out, out = out, c.out
	}
	c.write.spare = out
	switch {
	case err != nil:
		c.close()
	case c.closed:
		c.out.reset()
	default:
		c.unblock()
		c.writeDone()
	}
}

// swapOutput takes the pending output, and makes the spare one collect what follows.
func (c *conn) swapOutput() *output {
	out := c.out
	c.out, c.write.spare = c.write.spare, nil
	return out
}

// writeDone wakes those that wait for the end of a write.
func (c *conn) writeDone() {
	if c.write.waiting {
		c.write.waiting = false
		c.write.done.Broadcast()
	}
}

// full reports whether so much output is pending that answers must stay in their streams.
func (c *conn) full() bool { return c.out.size+len(c.out.b) > maxUnsent }

// unblock continues calls that waited for the connection's window or for room in the output.
func (c *conn) unblock() {
	if len(c.blocked) == 0 {
		return
	}
	list := c.blocked
	c.blocked = nil
	for _, s := range list {
		s.send.blocked = false
		if s.open {
			c.push(s)
		}
	}
}

// sealHeaders makes frames of the header block c.out.b[from:], which begins with room for one head.
func (c *conn) sealHeaders(from int, id uint32, flags byte) {
	c.life.pingOK = true
	b := c.out.b
	n := len(b) - from - headSize
	if n <= c.peer.frame {
		appendHead(b[from:from], n, frameHeaders, flags|flagEndHeaders, id)
		return
	}
	block := append([]byte(nil), b[from+headSize:]...)
	b = b[:from]
	kind := byte(frameHeaders)
	for len(block) > 0 {
		k := min(len(block), c.peer.frame)
		f := flags
		if k == len(block) {
			f |= flagEndHeaders
		}
		b = append(appendHead(b, k, kind, f, id), block[:k]...)
		block, kind, flags = block[k:], frameContinuation, 0
	}
	c.out.b = b
}

var noHead [headSize]byte

func (c *conn) sendHeaders(s *Stream) {
	if s.send.headersSent {
		return
	}
	s.send.headersSent = true
	from := len(c.out.b)
	b := c.enc.headers(append(c.out.b, noHead[:]...))
	if s.send.encoding != "" {
		b = appendField(b, "grpc-encoding", s.send.encoding)
	}
	c.out.b = appendMetadata(b, s.send.header)
	c.sealHeaders(from, s.id, 0)
}

// sendSmall appends a message of at most copyBelow bytes that is not compressed, by copying.
func (c *conn) sendSmall(s *Stream, msg []byte) {
	n := prefixSize + len(msg)
	if s.send.queued > 0 || int64(n) > min(s.send.window, c.peer.window) || c.full() {
		c.sendMessage(s, mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), msg...))}, 0)
		return
	}
	b := appendHead(c.out.b, n, frameData, 0, s.id)
	c.out.b = append(appendPrefix(b, 0, len(msg)), msg...)
	s.send.window -= int64(n)
	c.peer.window -= int64(n)
	c.life.pingOK = true
}

// sendMessage queues a message, whose references it takes over, and sends what the windows allow.
func (c *conn) sendMessage(s *Stream, msg mem.BufferSlice, flag byte) {
	if c.closed || !s.open || s.send.end != nil {
		msg.Free()
		return
	}
	c.sendHeaders(s)
	q := &s.send
	q.queue = append(q.queue, mem.SliceBuffer(appendPrefix(nil, flag, msg.Len())))
	q.queued += prefixSize + msg.Len()
	for _, b := range msg {
		if b.Len() == 0 {
			b.Free()
			continue
		}
		q.queue = append(q.queue, b)
	}
	c.push(s)
}

// push sends of a call's queue what the windows and the output's room allow, and after the queue the call's end.
func (c *conn) push(s *Stream) {
	q := &s.send
	for q.queued > 0 {
		if c.peer.window <= 0 || c.full() {
			if !q.blocked {
				q.blocked = true
				c.blocked = append(c.blocked, s)
			}
			return
		}
		n := int(min(int64(q.queued), q.window, c.peer.window, int64(c.peer.frame)))
		if n <= 0 {
			return // until the stream's window opens
		}
		c.out.b = appendHead(c.out.b, n, frameData, 0, s.id)
		c.life.pingOK = true
		s.moved()
		q.window -= int64(n)
		c.peer.window -= int64(n)
		q.queued -= n
		for n > 0 {
			n -= c.appendQueued(q, n)
		}
	}
	q.queue, q.offset = q.queue[:0], 0
	if s.call != nil {
		select {
		case s.call.sent <- struct{}{}:
		default:
		}
	}
	if q.end != nil {
		c.sendEnd(s, q.end)
	}
}

// appendQueued appends up to n bytes of the first buffer of a call's queue, and returns how many.
func (c *conn) appendQueued(q *sendState, n int) int {
	first := q.queue[0]
	data := first.ReadOnlyData()[q.offset:]
	whole := len(data) <= n
	if !whole {
		data = data[:n]
	}
	copied := c.write.copyAll || len(data) < copyBelow
	if copied {
		c.out.b = append(c.out.b, data...)
	} else {
		c.out.refer(data)
	}
	if !whole {
		q.offset += n
		return n
	}
	if copied && q.offset == 0 {
		first.Free()
	} else {
		c.out.owners = append(c.out.owners, first)
	}
	q.queue[0] = nil
	q.queue, q.offset = q.queue[1:], 0
	return len(data)
}

// finish ends a call's answer. The trailers follow what is queued.
func (c *conn) finish(s *Stream, err error) {
	if s.finished {
		return
	}
	s.finished = true
	if s.inline.timer != nil {
		s.inline.timer.Stop()
	}
	if s.inline.begun {
		c.inline.running--
	}
	if c.closed || !s.open {
		return
	}
	st := statusOK
	if err != nil {
		st = statusOf(err)
		if c.srv.o.Failed != nil {
			c.srv.o.Failed(s.req.path, c.nc.RemoteAddr(), st, s.inline.begun && !s.inline.unread)
		}
	}
	switch st.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
	default:
		c.life.served = c.life.served || err != statusStalled //nolint:errorlint // our own, never wrapped
	}
	if s.send.queued > 0 {
		s.send.end = st
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

// sendEnd sends the trailers, or headers and trailers as one block if nothing was sent before, and forgets the call.
func (c *conn) sendEnd(s *Stream, st *grpcstatus.Status) {
	switch {
	case s.req.http != 0 && !s.send.headersSent:
		c.sendHTTP(s, st)
		return
	case s.req.http != 0:
		c.out.b = appendHead(c.out.b, 0, frameData, flagEndStream, s.id)
		c.answered(s)
		return
	}
	from := len(c.out.b)
	b := append(c.out.b, noHead[:]...)
	if !s.send.headersSent {
		s.send.headersSent = true
		b = c.enc.headers(b)
		b = appendMetadata(b, s.send.header)
		if s.req.compression != "" && !canDecompress(s.req.compression) {
			b = appendField(b, "grpc-accept-encoding", "identity,deflate,gzip")
		}
	}
	b = c.enc.status(b, st)
	c.out.b = appendMetadata(b, s.send.trailer)
	c.sealHeaders(from, s.id, flagEndStream)
	c.answered(s)
}

// sendHTTP answers a request that is not a gRPC call, with a text for its reader.
func (c *conn) sendHTTP(s *Stream, st *grpcstatus.Status) {
	text := "this port serves gRPC: " + st.Message() + "\n"
	from := len(c.out.b)
	b := append(c.out.b, noHead[:]...)
	b = appendPrefixed(c.enc.begin(b), 4, staticStatus)
	b = appendText(b, strconv.Itoa(s.req.http))
	b = appendText(appendPrefixed(b, 4, staticContentType), "text/plain; charset=utf-8")
	c.out.b = c.enc.status(b, st)
	c.sealHeaders(from, s.id, 0)
	s.send.headersSent, s.send.end = true, st
	s.send.queue, s.send.queued = append(s.send.queue, mem.SliceBuffer(text)), len(text)
	c.push(s)
}

// answered forgets a call whose answer is complete. A client that has not ended the call need not send the rest.
func (c *conn) answered(s *Stream) {
	if !s.remoteClosed {
		c.out.b = appendWords(c.out.b, frameReset, s.id, uint32(codeNo))
	}
	c.forget(s)
}

// reset ends a call with RST_STREAM.
func (c *conn) reset(s *Stream, code errCode, err error) {
	c.out.b = appendWords(c.out.b, frameReset, s.id, uint32(code))
	c.abort(s, err)
}

// abort ends a call that is cancelled or whose client has broken the protocol. Nothing of it is sent any more.
func (c *conn) abort(s *Stream, err error) {
	if s.err == nil {
		s.err = err
	}
	q := &s.send
	for i, b := range q.queue {
		if i == 0 && q.offset > 0 && (c.write.active || !c.out.empty()) {
			c.out.owners = append(c.out.owners, b) // a part of it may be in the output
		} else {
			b.Free()
		}
		q.queue[i] = nil
	}
	q.queue, q.offset, q.queued = nil, 0, 0
	c.forget(s)
	switch {
	case s.call != nil:
		s.call.cancel()
	case s.inline.begun && !s.finished:
		c.resume(s)
	}
}

// forget removes a call from the connection's table.
func (c *conn) forget(s *Stream) {
	if !s.open {
		return
	}
	s.open = false
	delete(c.streams, s.id)
	if !s.remoteClosed { // else the reader has released what it received, or does
		c.reader.left = append(c.reader.left, s)
	}
	if len(c.streams) > 0 {
		return
	}
	if c.srv.o.Keepalive.MaxConnectionIdle != forever {
		c.life.idleSince = time.Now()
	}
	if c.life.stage == drainRefusing {
		c.life.hangUp = true
		c.wakeWriter()
	}
}
