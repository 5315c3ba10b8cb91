package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// rawCodec passes messages as bytes.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(bytes.Clone(*v.(*[]byte)))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (rawCodec) Name() string { return "proto" }

// echo is an Inline that answers with its message, from another goroutine.
type echo struct{}

func (echo) Accept(context.Context) error { return nil }
func (echo) Begin(s *Stream, msg *tensor.Buffer) {
	s.Value = msg
	go s.Wake()
}
func (echo) Resume(s *Stream) {
	msg := s.Value.(*tensor.Buffer)
	s.Finish(msg.Bytes(), s.Err())
	msg.Release()
}

// wait is an Inline that never answers. It reports when a call has begun and why it ended.
type wait struct {
	begun chan struct{}
	ended chan error
}

func (w wait) Accept(context.Context) error { return nil }
func (w wait) Begin(_ *Stream, msg *tensor.Buffer) {
	msg.Release()
	w.begun <- struct{}{}
}
func (w wait) Resume(s *Stream) {
	err := s.Err()
	if err == nil {
		return
	}
	s.Finish(nil, err)
	w.ended <- err
}

// server is a running server of the service t.T, and what a test adds.
type server struct {
	*Server
	addr   string
	wait   wait
	at     *accepting
	dialed int64 // connections that the test has opened by hand
}

// accepting counts the calls of Accept: at the nth, the server has taken over n-1 connections.
type accepting struct {
	net.Listener
	calls atomic.Int64
	first chan struct{} // closed by the first
}

func (a *accepting) Accept() (net.Conn, error) {
	if a.calls.Add(1) == 1 {
		close(a.first)
	}
	return a.Listener.Accept()
}

func serve(t testing.TB, change func(*Options), more ...*grpc.ServiceDesc) *server {
	t.Helper()
	o := Options{Codec: rawCodec{}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := wait{begun: make(chan struct{}, 100_000), ended: make(chan error, 100_000)}
	unused := func(any, grpc.ServerStream) error { return errors.New("inline methods have no handler") }
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "t.T", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
		{StreamName: "Echo", Handler: unused},
		{StreamName: "Wait", Handler: unused},
		{StreamName: "Unary", Handler: func(_ any, st grpc.ServerStream) error {
			var b []byte
			if err := st.RecvMsg(&b); err != nil {
				return err
			}
			return st.SendMsg(&b)
		}},
		{StreamName: "Stream", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error {
				for {
					var b []byte
					if err := st.RecvMsg(&b); err == io.EOF {
						return nil
					} else if err != nil {
						return err
					}
					if err := st.SendMsg(&b); err != nil {
						return err
					}
				}
			}},
	}}, nil)
	for _, d := range more {
		s.RegisterService(d, nil)
	}
	for name, in := range map[string]Inline{"/t.T/Echo": echo{}, "/t.T/Wait": w} {
		if err := s.HandleInline(name, in); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := &accepting{Listener: l, first: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(at) }()
	<-at.first // a server that is stopped before it serves is another case
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &server{Server: s, addr: l.Addr().String(), wait: w, at: at}
}

// dialRaw opens a connection.
func (s *server) dialRaw(t testing.TB) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.dialed++
	return nc
}

// counts returns how many connections are open and how many calls run on them.
func (s *Server) counts() (connections, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		calls += len(c.streams)
		c.mu.Unlock()
	}
	return len(s.conns), calls
}

// idle waits until the server has accepted all connections, no call runs, and n connections are open.
func (s *server) idle(t testing.TB, connections int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		seen := s.at.calls.Load() > s.dialed
		conns, calls := s.counts()
		if seen && conns == connections && calls == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections and %d calls are left, all seen: %t; want %d and 0", conns, calls, seen,
				connections)
		}
		time.Sleep(time.Millisecond) // nothing signals it
	}
}

// settle waits until the server has dealt with all that it has read, and has written all that it has. A test that sets
// the clock forward calls it, as what is under way would seem to hang.
func (s *server) settle(t testing.TB) {
	t.Helper()
	busy := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.conns {
			conn.mu.Lock()
			active := conn.write.active || conn.reader.within.Load()
			conn.mu.Unlock()
			if active {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(time.Minute); busy(); time.Sleep(time.Millisecond) { // nothing signals it
		if time.Now().After(deadline) {
			t.Fatal("a connection is still busy")
		}
	}
}

// client is a client that sends and reads single frames.
type client struct {
	t testing.TB
	net.Conn
	*http2.Framer
	enc   *hpack.Encoder
	block bytes.Buffer
	next  uint32
}

func dial(t testing.TB, s *server, settings ...http2.Setting) *client {
	t.Helper()
	nc := s.dialRaw(t)
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	c := &client{t: t, Conn: nc, Framer: http2.NewFramer(nc, nc), next: 1}
	c.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return c
}

// head returns the header block of a call of a method of t.T.
func (c *client) head(method string, more ...string) []byte { return c.headOf("/t.T/"+method, more...) }

func (c *client) headOf(path string, more ...string) []byte {
	c.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		if err := c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.block.Bytes()
}

// open sends a call's headers and returns its stream. Errors show when the answer is read.
func (c *client) open(method string, more ...string) uint32 {
	return c.openPath("/t.T/"+method, more...)
}

func (c *client) openPath(path string, more ...string) uint32 {
	id := c.next
	c.next += 2
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headOf(path, more...), EndHeaders: true})
	return id
}

func (c *client) send(id uint32, end bool, msg []byte) {
	b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
	for len(b) > maxFrame {
		_ = c.WriteData(id, false, b[:maxFrame])
		b = b[maxFrame:]
	}
	_ = c.WriteData(id, end, b)
}

// reply is the answer to a call.
type reply struct {
	status, message string
	header          map[string]string
	body            []byte
	reset           http2.ErrCode
}

// goneAway is a GOAWAY with an error.
type goneAway struct{ http2.ErrCode }

func (g goneAway) Error() string { return g.String() }

// result reads until a call ends, and sends window updates.
func (c *client) result(id uint32) (reply, error) {
	r := reply{header: map[string]string{}}
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return r, err
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return r, goneAway{f.ErrCode}
			}
		case *http2.DataFrame:
			if n := f.Length; n > 0 {
				_ = c.WriteWindowUpdate(0, n)
				_ = c.WriteWindowUpdate(f.StreamID, n)
			}
			if f.StreamID == id {
				r.body = append(r.body, f.Data()...)
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID != id {
				continue
			}
			for _, h := range f.Fields {
				r.header[h.Name] = h.Value
			}
			if f.StreamEnded() {
				r.status, r.message = r.header["grpc-status"], r.header["grpc-message"]
				return r, nil
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				r.reset = f.ErrCode
				return r, nil
			}
		}
	}
}

// expectGone reads until the server ends the connection with code.
func (c *client) expectGone(code http2.ErrCode) {
	c.t.Helper()
	_, err := c.result(1 << 30)
	var gone goneAway
	if !errors.As(err, &gone) || gone.ErrCode != code {
		c.t.Errorf("the connection ended with %v, want GOAWAY %v", err, code)
	}
}

// works checks that a call on a connection is answered.
func (c *client) works(method string) {
	c.t.Helper()
	id := c.open(method)
	c.send(id, true, []byte("hello"))
	if r, err := c.result(id); err != nil || r.status != "0" || string(r.body[prefixSize:]) != "hello" {
		c.t.Errorf("%s = %+v, %v; want hello", method, r, err)
	}
}

func code(err error) string { return grpcstatus.Code(err).String() }
