package h2

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// Inline answers the unary calls of one method without a goroutine for each. None of its methods may block: Accept and
// Begin hold up the connection's reading, Resume its answers. Begin and Resume of one call never run at once.
type Inline interface {
	// Accept is asked when a call's headers have come and before its message is taken. An error ends the call with it.
	// ctx has the call's metadata and peer; it ends with the connection, not with the call.
	Accept(ctx context.Context) error
	// Begin takes a call's message, whose buffer it then owns. It ends the call with Finish, or keeps its state in
	// s.Value and has s.Wake called when there is something to do.
	Begin(s *Stream, msg *tensor.Buffer)
	// Resume is called after Wake, and once s.Err is not nil: the client or its deadline has ended the call. It must
	// then let go of what it has, and call Finish all the same.
	Resume(s *Stream)
}

// Stream is one call. For a handler it is the grpc.ServerStream; for an Inline it is the call's only object, which it
// must not keep after Finish.
type Stream struct {
	Value any // an Inline's own state of the call

	c   *conn
	id  uint32
	req *request

	// Of the connection's reader.
	in         assembler
	received   int64 // bytes of DATA
	uncredited int   // of those, neither given back to the window nor part of a whole message
	first      *tensor.Buffer
	flag       byte // of first's prefix

	// Guarded by c.mu.
	recvWindow     int
	uncreditedHeld int   // taken by the handler, not given back yet
	window         int64 // to send; may be negative
	queue          []mem.Buffer
	offset         int // sent of queue[0]
	queued         int // bytes of queue
	end            *grpcstatus.Status
	trailer        metadata.MD
	header         metadata.MD
	encoding       string // of the messages sent
	err            error  // why the call ended before its answer
	timer          *time.Timer
	present        bool // in c.streams
	remoteEnd      bool // the client has sent all
	headers        bool // have been sent
	done           bool // the handler has finished
	began          bool // Begin has been called
	busy           bool // Begin is running
	again          bool // Resume is wanted once it has
	ready          bool // in c.ready
	blocked        bool // in c.blocked

	call *call // of a call with a goroutine
}

// call is what a call with a goroutine has beside.
type call struct {
	ctx      context.Context
	cancel   context.CancelFunc
	messages []received // guarded by c.mu
	bad      error      // what ends RecvMsg after them
	arrived  chan struct{}
	sent     chan struct{}
	got      int
}

type received struct {
	buf    *tensor.Buffer
	flag   byte
	credit int
}

var streams = sync.Pool{New: func() any { return new(Stream) }}

var _ grpc.ServerStream = (*Stream)(nil)

// Context returns the call's context: metadata, peer, deadline, cancelled when the call ends. That of an inline call
// ends with the connection.
func (s *Stream) Context() context.Context {
	if s.call != nil {
		return s.call.ctx
	}
	return s.req.ctx
}

// Err returns why an inline call has ended before its answer, nil while it has not. It is a gRPC status.
func (s *Stream) Err() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.err
}

// Wake has Resume called soon. It may be called from any goroutine between Begin and Finish, and does not block.
func (s *Stream) Wake() {
	s.c.mu.Lock()
	s.c.resume(s)
	s.c.mu.Unlock()
}

// Finish ends an inline call with a message, which is copied, or an error.
func (s *Stream) Finish(msg []byte, err error) {
	c := s.c
	if err == nil && (s.encoding != "" || len(msg) > copyBelow) {
		s.FinishBuffers(mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), msg...))}, nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && s.present && !c.dead {
		c.sendHeaders(s)
		c.sendSmall(s, msg)
	}
	c.finish(s, err)
	c.wake()
}

// FinishBuffers is Finish for a message in pieces; their references are taken.
func (s *Stream) FinishBuffers(msg mem.BufferSlice, err error) {
	c := s.c
	if err == nil {
		var flag byte
		if msg, flag, err = s.pack(msg); err == nil {
			c.mu.Lock()
			c.sendMessage(s, msg, flag)
			c.mu.Unlock()
		}
	} else {
		msg.Free()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(s, err)
	c.wake()
}

// pack checks a message's size and compresses it if the call's answers are. It takes the references of msg.
func (s *Stream) pack(msg mem.BufferSlice) (mem.BufferSlice, byte, error) {
	flag := byte(0)
	s.c.mu.Lock()
	encoding := s.encoding
	s.c.mu.Unlock()
	if encoding != "" && msg.Len() > 0 {
		parts := make([][]byte, len(msg))
		for i, b := range msg {
			parts[i] = b.ReadOnlyData()
		}
		out, err := compress(encoding, parts)
		msg.Free()
		if err != nil {
			return nil, 0, grpcstatus.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
		}
		msg, flag = mem.BufferSlice{mem.SliceBuffer(out)}, 1
	}
	if n := msg.Len(); n > maxSend {
		msg.Free()
		return nil, 0, grpcstatus.Errorf(codes.ResourceExhausted, "grpc: trying to send message larger than max (%d vs. %d)", n, maxSend)
	}
	return msg, flag, nil
}

// SendMsg sends a message that the codec knows. It returns once the message is on its way to the socket.
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
	c.sendMessage(s, msg, flag)
	if !s.req.method.serverStreams { // its trailers follow at once
		err := s.lost()
		c.mu.Unlock()
		return err
	}
	for {
		c.flush()
		if err := s.lost(); err != nil || s.queued == 0 {
			c.mu.Unlock()
			return err
		}
		c.mu.Unlock()
		select {
		case <-s.call.sent:
		case <-s.call.ctx.Done():
			return grpcstatus.FromContextError(s.call.ctx.Err()).Err()
		}
		c.mu.Lock()
	}
}

// lost returns why nothing can be sent any more. c.mu is held.
func (s *Stream) lost() error {
	switch {
	case s.err != nil:
		return s.err
	case !s.present:
		return grpcstatus.Error(codes.Canceled, "the call has ended")
	}
	return nil
}

// RecvMsg waits for the next message, io.EOF when the client has sent all.
func (s *Stream) RecvMsg(m any) error {
	got, err := s.next()
	if err == io.EOF && s.call.got == 0 && !s.req.method.clientStreams {
		return grpcstatus.Error(codes.Internal, "cardinality violation: received no request message from non-client-streaming RPC")
	}
	if err != nil {
		return err
	}
	s.call.got++
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

// Receiver is a message that takes what was received as it is, without a codec and without a copy.
type Receiver interface {
	// Receive takes the encoded message, with the caller's reference on it.
	Receive(b *tensor.Buffer)
}

// next takes a received message.
func (s *Stream) next() (received, error) {
	c := s.c
	c.mu.Lock()
	for {
		if q := s.call.messages; len(q) > 0 {
			got := q[0]
			q[0] = received{}
			s.call.messages = q[1:]
			c.credit(s, got)
			c.flush()
			c.mu.Unlock()
			return got, nil
		}
		err := s.call.bad
		switch {
		case s.err != nil:
			err = s.err
		case err == nil && s.remoteEnd:
			err = io.EOF
		}
		c.mu.Unlock()
		if err != nil {
			return received{}, err
		}
		select {
		case <-s.call.arrived:
		case <-s.call.ctx.Done():
			return received{}, grpcstatus.FromContextError(s.call.ctx.Err()).Err()
		}
		c.mu.Lock()
	}
}

// unpack decompresses a message if its flag says so.
func (s *Stream) unpack(b *tensor.Buffer, flag byte) (*tensor.Buffer, error) {
	if flag == 0 {
		return b, nil
	}
	o := &s.c.srv.o
	if flag != 1 || s.req.compression == "" {
		b.Release()
		if flag == 1 {
			return nil, grpcstatus.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
		}
		return nil, grpcstatus.Errorf(codes.Internal, "grpc: received unexpected payload format %d", flag)
	}
	out, err := decompress(s.req.compression, b, o.MaxReceiveBytes, o.Pool)
	switch {
	case err == errTooLarge: //nolint:errorlint // our own, never wrapped
		return nil, grpcstatus.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", o.MaxReceiveBytes)
	case err != nil:
		return nil, grpcstatus.Errorf(codes.Internal, "grpc: failed to decompress the received message: %v", err)
	}
	return out, nil
}

// SetHeader adds to the header metadata, which go out with the first message.
func (s *Stream) SetHeader(md metadata.MD) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.headers {
		return grpcstatus.Error(codes.Internal, "transport: the stream is done or WriteHeader was already called")
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader sends the header metadata.
func (s *Stream) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.lost(); err != nil {
		return err
	}
	c.sendHeaders(s)
	c.flush()
	return nil
}

// Compress has the call's messages compressed from now on if the client accepts that, and reports whether it does. After
// the headers have gone out it is too late.
func (s *Stream) Compress() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.headers {
		s.encoding = answerEncoding(s.req)
	}
	return s.encoding != ""
}

// SetTrailer adds to the trailer metadata.
func (s *Stream) SetTrailer(md metadata.MD) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
}

// transportStream lets grpc.SetHeader, grpc.SetTrailer and grpc.Method find the call in its context.
type transportStream struct{ *Stream }

func (t transportStream) Method() string { return t.req.path }
func (t transportStream) SetTrailer(md metadata.MD) error {
	t.Stream.SetTrailer(md)
	return nil
}

var _ grpc.ServerTransportStream = transportStream{}

func (s *Stream) String() string { return fmt.Sprintf("%s (stream %d)", s.req.path, s.id) }
