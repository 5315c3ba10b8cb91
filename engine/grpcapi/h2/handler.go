package h2

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// call is the state of a call that is not inline.
type call struct {
	ctx     context.Context
	cancel  context.CancelFunc
	arrived chan struct{} // capacity 1: a message has come, or the end
	sent    chan struct{} // capacity 1: what was queued has been sent
	taken   int           // messages that the handler has taken

	messages []received // guarded by conn.mu, as is fault
	fault    error      // what RecvMsg returns after messages
}

// received is a message that no handler has taken.
type received struct {
	buf    *tensor.Buffer
	flag   byte
	credit int // bytes that it took of the windows
}

func (c *call) notify() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// startHandler runs a call's handler on a goroutine.
func (c *conn) startHandler(s *Stream) {
	var ctx context.Context
	var cancel context.CancelFunc
	if d := s.req.timeout; d > 0 {
		ctx, cancel = context.WithTimeout(s.req.ctx, d)
	} else {
		ctx, cancel = context.WithCancel(s.req.ctx)
	}
	started := &call{cancel: cancel, arrived: make(chan struct{}, 1), sent: make(chan struct{}, 1)}
	started.ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{s})
	c.mu.Lock()
	s.call = started
	if !s.open { // the connection was closed after the stream was opened, when there was nothing to cancel
		cancel()
	}
	c.mu.Unlock()
	c.handlers.Go(func() {
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
		s.call.fault = statusCancelled
		c.flush()
	})
}

// SendMsg sends a message that the codec knows. It returns once the message has been handed to the socket.
func (s *Stream) SendMsg(m any) error {
	msg, err := s.c.srv.o.Codec.Marshal(m)
	if err != nil {
		return grpcstatus.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	msg, flag, err := s.pack(msg)
	if err != nil {
		return err
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendMessage(s, msg, flag)
	if !s.req.method.serverStreams { // the trailers follow at once
		return s.lost()
	}
	for {
		c.flush()
		if err := s.lost(); err != nil || s.send.queued == 0 {
			return err
		}
		if err := s.wait(s.call.sent); err != nil {
			return err
		}
	}
}

// wait waits for signal or the end of the call. c.mu is held, but unlocked while it waits.
func (s *Stream) wait(signal <-chan struct{}) error {
	s.c.mu.Unlock()
	defer s.c.mu.Lock()
	select {
	case <-signal:
		return nil
	case <-s.call.ctx.Done():
		return grpcstatus.FromContextError(s.call.ctx.Err()).Err()
	}
}

// Receiver is a message that takes its encoded bytes without a codec and without a copy.
type Receiver interface {
	// Receive takes over the reference on b.
	Receive(b *tensor.Buffer)
}

// RecvMsg waits for the next message. It returns io.EOF when the client has sent all.
func (s *Stream) RecvMsg(m any) error {
	got, err := s.next()
	if err == io.EOF && s.call.taken == 0 && !s.req.method.clientStreams {
		return statusNoMessage
	}
	if err != nil {
		return err
	}
	s.call.taken++
	b, err := s.unpack(got.buf, got.flag)
	if err != nil {
		return err
	}
	if r, ok := m.(Receiver); ok {
		r.Receive(b)
		return nil
	}
	defer b.Release()
	if err := s.c.srv.o.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b.Bytes())}, m); err != nil {
		return grpcstatus.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// next waits for a message and takes it.
func (s *Stream) next() (received, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if q := s.call.messages; len(q) > 0 {
			got := q[0]
			q[0] = received{}
			s.call.messages = q[1:]
			c.credit(s, got)
			c.flush()
			return got, nil
		}
		switch {
		case s.err != nil:
			return received{}, s.err
		case s.call.fault != nil:
			return received{}, s.call.fault
		case s.remoteClosed:
			return received{}, io.EOF
		}
		if err := s.wait(s.call.arrived); err != nil {
			return received{}, err
		}
	}
}
