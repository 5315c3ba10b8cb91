package h2

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// Stream is one call. A handler uses it as its grpc.ServerStream. For an Inline it is the only object of the call, and
// must not be used after Finish.
type Stream struct {
	Value any // an Inline's own state of the call

	c    *conn
	id   uint32
	req  *request
	recv receiveState
	call *call // of a call that is not inline

	// Guarded by c.mu.
	send         sendState
	inline       inlineState
	recvWindow   int   // bytes of DATA that the client may send
	heldCredit   int   // bytes that the handler has taken and that were not returned to recvWindow
	err          error // why the call ended before its answer
	open         bool  // in c.streams
	remoteClosed bool  // the client has sent all
	finished     bool  // the handler or the Inline has finished
	progress           // DATA frames of both directions

	within atomic.Bool // a message has begun and not ended
}

// receiveState is what the reader knows of a call's messages. Only the reader uses it.
type receiveState struct {
	msg        assembler
	bytes      int64          // of DATA
	arrived    int            // bytes of DATA since the last progress
	uncredited int            // of those, neither returned to the window nor part of a whole message
	first      *tensor.Buffer // the message of an inline call
	flag       byte           // of first's prefix
}

// drop releases what an inline call received.
func (r *receiveState) drop() {
	if r.first != nil {
		r.first.Release()
		r.first = nil
	}
	r.msg.drop()
}

var streams = sync.Pool{New: func() any { return new(Stream) }}

var _ grpc.ServerStream = (*Stream)(nil)

// Context returns the call's context. It has the metadata, the peer and the deadline, and is cancelled when the call
// ends. For an inline call it has no deadline and ends with the connection.
func (s *Stream) Context() context.Context {
	if s.call != nil {
		return s.call.ctx
	}
	return s.req.ctx
}

// Err returns the gRPC status with which an inline call has ended before its answer, nil if it has not.
func (s *Stream) Err() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.err
}

// Wake makes the connection call Resume soon. It may be called from any goroutine between Begin and Finish, and does
// not block.
func (s *Stream) Wake() {
	s.c.mu.Lock()
	s.c.resume(s)
	s.c.mu.Unlock()
}

// Finish ends an inline call with a message, which is copied, or with an error.
func (s *Stream) Finish(msg []byte, err error) {
	c := s.c
	if err == nil && (s.send.encoding != "" || len(msg) > copyBelow) {
		s.FinishBuffers(mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), msg...))}, nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && s.open && !c.closed {
		c.sendHeaders(s)
		c.sendSmall(s, msg)
	}
	c.finish(s, err)
	c.wakeWriter()
}

// FinishBuffers is Finish for a message in pieces. It takes over their references.
func (s *Stream) FinishBuffers(msg mem.BufferSlice, err error) {
	var flag byte
	if err != nil {
		msg.Free()
	} else {
		msg, flag, err = s.pack(msg)
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.sendMessage(s, msg, flag)
	}
	c.finish(s, err)
	c.wakeWriter()
}

// pack checks a message's size, and compresses it if the call's answers are compressed. It takes over msg's references.
func (s *Stream) pack(msg mem.BufferSlice) (mem.BufferSlice, byte, error) {
	flag := byte(0)
	s.c.mu.Lock()
	encoding := s.send.encoding
	s.c.mu.Unlock()
	if encoding != "" && msg.Len() > 0 {
		out, err := compress(encoding, msg)
		msg.Free()
		if err != nil {
			return nil, 0, grpcstatus.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
		}
		msg, flag = mem.BufferSlice{mem.SliceBuffer(out)}, 1
	}
	if n := msg.Len(); n > maxSend {
		msg.Free()
		return nil, 0, grpcstatus.Errorf(codes.ResourceExhausted,
			"grpc: trying to send message larger than max (%d vs. %d)", n, maxSend)
	}
	return msg, flag, nil
}

// unpack decompresses a message if its flag says so. It takes over the reference on b.
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
	limit := min(o.MaxReceiveBytes, o.MaxInflatedBytes)
	out, err := decompress(s.req.compression, b, limit, o.Pool)
	switch {
	case err == errTooLarge: //nolint:errorlint // our own, never wrapped
		return nil, grpcstatus.Errorf(codes.ResourceExhausted,
			"grpc: received message after decompression larger than max %d", limit)
	case errors.Is(err, tensor.ErrNoRoom), errors.Is(err, tensor.ErrRatio):
		return nil, grpcstatus.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return nil, grpcstatus.Errorf(codes.Internal, "grpc: failed to decompress the received message: %v", err)
	}
	return out, nil
}

// SetHeader adds to the header metadata, which is sent with the first message.
func (s *Stream) SetHeader(md metadata.MD) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.send.headersSent {
		return grpcstatus.Error(codes.Internal, "transport: the stream is done or WriteHeader was already called")
	}
	s.send.header = metadata.Join(s.send.header, md)
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

// SetTrailer adds to the trailer metadata.
func (s *Stream) SetTrailer(md metadata.MD) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.send.trailer = metadata.Join(s.send.trailer, md)
}

// Compress makes the server compress the call's messages if the client accepts that, and reports whether it does. It
// has no effect after the headers have been sent.
func (s *Stream) Compress() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.send.headersSent {
		s.send.encoding = answerEncoding(s.req)
	}
	return s.send.encoding != ""
}

// lost returns why nothing can be sent any more, nil if it can. c.mu is held.
func (s *Stream) lost() error {
	switch {
	case s.err != nil:
		return s.err
	case !s.open:
		return grpcstatus.Error(codes.Canceled, "the call has ended")
	}
	return nil
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
