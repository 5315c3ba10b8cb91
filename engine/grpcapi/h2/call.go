package h2

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// bigMessage is the size from which an inline call's message is not decoded on the connection's reader.
const bigMessage = 64 << 10

// startHandler runs a call with a goroutine.
func (c *conn) startHandler(s *Stream) {
	ctx, cancel := context.WithCancel(s.req.ctx)
	if d := s.req.timeout; d > 0 {
		cancel()
		ctx, cancel = context.WithTimeout(s.req.ctx, d)
	}
	started := &call{cancel: cancel, arrived: make(chan struct{}, 1), sent: make(chan struct{}, 1)}
	started.ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{s})
	c.mu.Lock()
	s.call = started
	if !s.present { // the connection has ended since the stream was opened, when there was nothing to cancel
		cancel()
	}
	c.mu.Unlock()
	c.handlers.Add(1)
	go func() {
		defer c.handlers.Done()
		err := s.req.method.handler(s)
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finish(s, err)
		for _, m := range s.call.messages {
			c.credit(s, m)
			m.buf.Release()
		}
		s.call.messages = nil
		s.call.bad = statusCancelled
		c.flush()
	}()
}

// message takes the message that s.in has whole.
func (c *conn) message(s *Stream) {
	flag := s.in.flag
	c.reserved -= s.in.reserved
	b := s.in.take()
	if s.call == nil {
		if s.first != nil {
			b.Release()
			c.end(s, grpcstatus.Error(codes.Internal,
				"cardinality violation: received multiple request messages for non-client-streaming RPC"))
			return
		}
		s.first, s.flag = b, flag
		return
	}
	m := received{b, flag, s.uncredited}
	s.uncredited = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.done || !s.present {
		b.Release()
		return
	}
	s.call.messages = append(s.call.messages, m)
	c.unread += len(b.Bytes())
	s.notify()
}

func (s *Stream) notify() {
	select {
	case s.call.arrived <- struct{}{}:
	default:
	}
}

// end finishes a call on the reader's side.
func (c *conn) end(s *Stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.call == nil {
		if !s.began {
			c.finish(s, err)
		}
		return
	}
	s.call.bad = err
	s.notify()
}

// tooLarge refuses a message by the length it announces. What follows of it is passed over.
func (c *conn) tooLarge(s *Stream) {
	size := s.in.size
	s.in.drop()
	err := grpcstatus.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, c.srv.o.MaxReceiveBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(s, err)
	if s.call != nil {
		s.call.bad = err
		s.call.cancel()
		s.notify()
	}
}

// ended takes the client's end of a call.
func (c *conn) ended(s *Stream) {
	c.mu.Lock()
	s.remoteEnd = true
	var err error
	switch {
	case !s.present:
		c.mu.Unlock()
		s.drop()
		return
	case s.req.length >= 0 && s.received != s.req.length:
		c.reset(s, codeProtocol, statusMalformed)
		c.mu.Unlock()
		s.drop()
		return
	case s.req.refusal != nil:
		c.finish(s, s.req.refusal.Err())
		c.mu.Unlock()
		return
	case s.in.partial():
		err = grpcstatus.Error(codes.Internal, "grpc: the call ends within a message")
	case s.call == nil && s.first == nil:
		err = grpcstatus.Error(codes.Internal, "cardinality violation: received no request message from non-client-streaming RPC")
	}
	if err != nil {
		if s.call == nil {
			c.finish(s, err)
		} else {
			s.call.bad = err
		}
		s.in.drop()
	}
	switch {
	case s.call != nil:
		s.notify()
	case err == nil && !s.done:
		s.began, s.busy = true, true
		c.inline++
		c.mu.Unlock()
		c.begin(s)
		return
	}
	c.mu.Unlock()
	s.drop()
}

// drop lets go of what an inline call received and nobody took.
func (s *Stream) drop() {
	if s.first != nil {
		s.first.Release()
		s.first = nil
	}
	s.in.drop()
}

// begin hands an inline call its message: here, or where it is more work than the reader should do, in a goroutine.
func (c *conn) begin(s *Stream) {
	if len(s.first.Bytes()) < bigMessage && s.flag == 0 {
		b := s.first
		s.first = nil
		c.srv.begin(s, b)
		c.begun(s, true)
		return
	}
	c.handlers.Add(1)
	go func() {
		defer c.handlers.Done()
		var b *tensor.Buffer
		b, s.first = s.first, nil
		b, err := s.unpack(b, s.flag)
		if err != nil {
			s.Finish(nil, err)
		} else {
			c.srv.begin(s, b)
		}
		c.begun(s, false)
	}()
}

// begun lets Resume be called from now on. The reader does that itself before it waits for more, unless it has been at
// work for long.
func (c *conn) begun(s *Stream, reader bool) {
	c.mu.Lock()
	c.idle(s, !reader || c.srv.now()-c.lastRead.Load() > int64(longWork))
	c.mu.Unlock()
}

// longWork is how long answers may wait for the reader.
const longWork = 100 * time.Microsecond

// recycle keeps an inline call's object for another, if nobody else can have it. c.mu is held.
func (c *conn) recycle(s *Stream) {
	if s.present || s.ready || s.busy || s.timer != nil || s.blocked || !s.remoteEnd || s.call != nil {
		return
	}
	s.Value, s.c, s.req, s.err, s.end, s.header, s.trailer = nil, nil, nil, nil, nil, nil, nil
	streams.Put(s)
}
