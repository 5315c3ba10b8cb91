package h2

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// TestH2Spec runs the conformance suite whose program H2SPEC names; `make h2spec` does.
func TestH2Spec(t *testing.T) {
	program := os.Getenv("H2SPEC")
	if program == "" {
		t.Skip("H2SPEC does not name h2spec's program; use make h2spec")
	}
	s := serve(t, func(o *Options) { o.MaxFrameBytes = maxFrame }) // its headers are not larger
	host, port, _ := strings.Cut(s.addr, ":")
	out, err := exec.Command(program, "-h", host, "-p", port, "-o", "20").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(", 0 failed")) {
		t.Errorf("h2spec: %v\n%s", err, out)
	}
}

// GracefulStop lets running calls finish, refuses new ones, and closes the connection.
func TestDrainFinishesRunningCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range []struct {
		name string
		age  time.Duration
	}{{"GracefulStop", 0}, {"MaxConnectionAge", 3 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(o *Options) { o.Keepalive.MaxConnectionAge = tt.age })
			c := dial(t, s)
			if tt.age == 0 {
				c.works("Echo") // without a call before, the connection would be closed at once
			}
			id := c.open("Stream")
			c.send(id, false, []byte("one"))
			for { // its echo: the server has the call
				f, err := c.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				if f.Header().StreamID == id && f.Header().Type == http2.FrameData {
					break
				}
			}
			stopped := make(chan struct{})
			if tt.age == 0 {
				go func() { s.GracefulStop(); close(stopped) }()
			} else {
				close(stopped)
			}
			aways := 0
			for aways < 2 {
				f, err := c.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				switch f := f.(type) {
				case *http2.PingFrame:
					_ = c.WritePing(true, f.Data)
				case *http2.GoAwayFrame:
					if want := []uint32{1<<31 - 1, id}[aways]; f.LastStreamID != want || f.ErrCode != http2.ErrCodeNo {
						t.Errorf("GOAWAY %v up to stream %d, want no error and %d", f.ErrCode, f.LastStreamID, want)
					}
					aways++
				}
			}
			c.open("Echo") // too late: the server ignores it
			c.send(id, true, []byte("two"))
			if r, err := c.result(id); err != nil || r.status != "0" || !bytes.HasSuffix(r.body, []byte("two")) {
				t.Errorf("the running call: %+v, %v", r, err)
			}
			if _, err := c.result(1 << 30); err != io.EOF {
				t.Errorf("the connection ends with %v, want EOF", err)
			}
			_ = c.Close()
			<-stopped
			s.idle(t, 0)
		})
	}
}

// A client that answers is asked again after the keepalive time, however long the timeout is.
func TestPingsComeAtEachKeepaliveTime_B075_H047(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Keepalive = keepalive.ServerParameters{Time: time.Second, Timeout: time.Hour}
	})
	c := dial(t, s)
	for pings := 0; pings < 3; {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("%v after %d pings", err, pings)
		}
		if ping, ok := f.(*http2.PingFrame); ok && !ping.IsAck() {
			pings++
			if err := c.WritePing(true, ping.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDeadClientIsDetected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t, func(o *Options) {
		o.Keepalive = keepalive.ServerParameters{Time: 3 * time.Second, Timeout: 50 * time.Millisecond}
	})
	c := dial(t, s)
	c.works("Echo")
	c.send(c.open("Wait"), true, nil)
	if _, err := c.result(1 << 30); err != io.EOF { // its ping is not answered
		t.Errorf("the connection ends with %v, want EOF", err)
	}
	if err := <-s.wait.ended; code(err) != "Canceled" {
		t.Errorf("the call ended with %v, want Canceled", err)
	}
	s.idle(t, 0)
}

func TestIdleConnectionEnds(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keepalive.MaxConnectionIdle = 50 * time.Millisecond })
	conn := goClient(t, s)
	var out []byte
	if err := conn.Invoke(t.Context(), "/t.T/Echo", ptr("x"), &out); err != nil {
		t.Fatal(err)
	}
	s.idle(t, 0)
	if err := conn.Invoke(t.Context(), "/t.T/Echo", ptr("x"), &out); err != nil { // over a new one
		t.Error(err)
	}
}

func goClient(t testing.TB, s *server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ptr(s string) *[]byte { b := []byte(s); return &b }

var _ encoding.CodecV2 = rawCodec{}

// TestMessagesOfAllSizes sends messages of all sizes around the limits of frames, buffers and windows both ways, on one
// connection.
func TestMessagesOfAllSizes(t *testing.T) {
	s := serve(t, nil)
	conn := goClient(t, s)
	for _, n := range []int{0, 1, copyBelow - 1, copyBelow + 1, maxFrame - prefixSize, maxFrame, bigMessage - 1,
		bigMessage,
		initialWindow, wholeAt - 1, wholeAt, wholeAt + 1, streamWindow, 5 * wholeAt, connWindow + 3} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i * 7)
		}
		for _, method := range []string{"Echo", "Unary"} {
			var out []byte
			if err := conn.Invoke(t.Context(), "/t.T/"+method, &in, &out); err != nil || !bytes.Equal(in, out) {
				t.Errorf("%s of %d bytes: %d bytes came back, %v", method, n, len(out), err)
			}
		}
	}
	s.idle(t, 1)
}

// Frames of DATA and of headers may be as large as the server allows. Larger ones are refused.
func TestLargeFrames(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	for _, n := range []int{defaultMaxFrame, defaultMaxFrame + 1, maxBuffer + 1, 3 * defaultMaxFrame} {
		msg := make([]byte, n-prefixSize)
		for i := range msg {
			msg[i] = byte(i * 7)
		}
		id := c.open("Echo")
		b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
		for len(b) > defaultMaxFrame {
			_ = c.WriteData(id, false, b[:defaultMaxFrame])
			b = b[defaultMaxFrame:]
		}
		_ = c.WriteData(id, true, b)
		if r, err := c.result(id); err != nil || r.status != "0" ||
			!bytes.Equal(r.body[min(len(r.body), prefixSize):], msg) {
			t.Fatalf("message of %d bytes: status %q, %d bytes came back, %v", len(msg), r.status, len(r.body), err)
		}
	}
	for range 2 {
		id := c.next
		c.next += 2
		block := c.head("Echo", "x", strings.Repeat("y", 80_000))
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true,
			EndHeaders: true})
		if r, err := c.result(id); err != nil || r.status != "8" {
			t.Fatalf("80 KB of headers in a frame: %+v, %v; want RESOURCE_EXHAUSTED (8)", r, err)
		}
		c.works("Echo")
	}
	_ = c.WriteData(c.open("Echo"), false, make([]byte, defaultMaxFrame+1))
	c.expectGone(http2.ErrCodeFrameSize)
}

// A stream sends more than fits into all windows, and its client reads only when it can send no more.
func TestStreamBackPressure(t *testing.T) {
	s := serve(t, nil)
	conn := goClient(t, s)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/t.T/Stream")
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 400, 100_000
	sent := make(chan error, 1)
	go func() {
		in := make([]byte, size)
		for range n {
			if err := stream.SendMsg(&in); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for i := range n {
		var out []byte
		if err := stream.RecvMsg(&out); err != nil || len(out) != size {
			t.Fatalf("message %d: %d bytes, %v", i, len(out), err)
		}
	}
	if err := stream.RecvMsg(new([]byte)); err != io.EOF {
		t.Errorf("the stream ends with %v, want EOF", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	s.idle(t, 1)
}

// A client that sends many calls before it reads receives every response whole, also if the socket did not take all
// output at once.
func TestUnreadResponsesArriveWhole(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(256 << 10) // a larger one would test less
	_ = c.WriteWindowUpdate(0, 1<<28)
	const n, size = 1500, 3000
	want := map[uint32]byte{}
	for i := range n {
		id := c.open("Echo")
		want[id] = byte(i)
		c.send(id, true, bytes.Repeat([]byte{byte(i)}, size))
	}
	got := map[uint32][]byte{}
	for len(want) > 0 {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("%d answers are missing: %v", len(want), err)
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.DataFrame:
			got[id] = append(got[id], f.Data()...)
		case *http2.MetaHeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			if b := got[id]; len(b) != prefixSize+size ||
				!bytes.Equal(b[prefixSize:], bytes.Repeat([]byte{want[id]}, size)) {
				t.Fatalf("the answer on stream %d has %d bytes or others than were sent", id, len(b))
			}
			delete(want, id)
		}
	}
}

func TestOutputJoin(t *testing.T) {
	freed, big := &puts{}, make([]byte, 1<<20)
	a, b := &output{}, &output{}
	a.b = append(a.b, "rest "...)
	b.b = append(b.b, "head "...)
	b.refer([]byte("piece "))
	b.owners = append(b.owners, mem.NewBuffer(&big, freed))
	b.b = append(b.b, "tail"...)
	a.join(b)
	if !b.empty() || freed.n != 0 {
		t.Errorf("what was joined is empty: %t; owners freed: %d", b.empty(), freed.n)
	}
	var w bytes.Buffer
	if err := a.write(&w, new(atomic.Uint32)); err != nil || w.String() != "rest head piece tail" {
		t.Errorf("written %q, %v", w.String(), err)
	}
	if a.reset(); freed.n != 1 {
		t.Errorf("owners freed: %d, want 1", freed.n)
	}
}

// puts counts the buffers that are released.
type puts struct{ n int }

func (*puts) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (p *puts) Put(*[]byte)     { p.n++ }

func TestCompression(t *testing.T) {
	s := serve(t, nil)
	for _, tt := range []struct {
		encoding string
		flag     byte
		status   string
	}{{"gzip", 1, "0"}, {"deflate", 1, "0"}, {"gzip", 0, "0"}, {"snappy", 1, "12"}, {"identity", 1, "13"}} {
		for _, method := range []string{"Echo", "Unary"} {
			c := dial(t, s)
			msg := bytes.Repeat([]byte("tensor"), 1000)
			var b bytes.Buffer
			switch {
			case tt.flag == 0:
				b.Write(msg)
			case tt.encoding == "gzip":
				w := gzip.NewWriter(&b)
				_, _ = w.Write(msg)
				_ = w.Close()
			default:
				w := zlib.NewWriter(&b)
				_, _ = w.Write(msg)
				_ = w.Close()
			}
			id := c.open(method, "grpc-encoding", tt.encoding)
			_ = c.WriteData(id, true, append(binary.BigEndian.AppendUint32([]byte{tt.flag}, uint32(b.Len())),
				b.Bytes()...))
			r, err := c.result(id)
			if err != nil || r.status != tt.status || tt.status == "0" && !bytes.HasSuffix(r.body, msg) {
				t.Errorf("%s by %s, flag %d: status %q with %d bytes, %v; want %s", method, tt.encoding, tt.flag,
					r.status, len(r.body), err, tt.status)
			}
			if tt.status == "12" && !strings.Contains(r.header["grpc-accept-encoding"], "gzip") {
				t.Errorf("the answer to an unknown encoding does not name the known ones: %v", r.header)
			}
		}
	}
}

func TestAnswerEncoding_B073(t *testing.T) {
	for _, tt := range []struct{ sent, accept, want string }{
		{"", "", ""},
		{"", "identity, deflate, gzip", "gzip"},
		{"", "identity,deflate", "deflate"},
		{"deflate", "identity, deflate, gzip", "deflate"},
		{"gzip", "deflate, gzip", "gzip"},
		{"gzip", "deflate", "deflate"},
		{"deflate", "gzip", "gzip"},
		{"gzip", "identity", ""},
		{"", "br", ""},
	} {
		if got := answerEncoding(&request{compression: tt.sent, accept: tt.accept}); got != tt.want {
			t.Errorf("a client that sends %q and accepts %q gets %q, want %q", tt.sent, tt.accept, got, tt.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, nil)
	for _, tt := range []struct {
		name   string
		more   []string
		method string
		want   reply
	}{
		{"unknown method", nil, "Nope", reply{status: "12", message: "unknown method Nope for service t.T"}},
		{"timeout without a unit", []string{"grpc-timeout", "12"}, "Echo",
			reply{status: "13",
				message: `malformed grpc-timeout: "12" does not end with a unit of H, M, S, m, u or n`}},
		{"binary metadata that is no base64", []string{"x-bin", "!"}, "Echo", reply{status: "13"}},
		{"upper-case name", []string{"X-Y", "1"}, "Echo", reply{reset: http2.ErrCodeProtocol}},
		{"connection header", []string{"connection", "close"}, "Echo", reply{reset: http2.ErrCodeProtocol}},
		{"no message", nil, "Echo", reply{status: "13",
			message: "cardinality violation: received no request message from non-client-streaming RPC"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, s)
			id := c.open(tt.method, tt.more...)
			_ = c.WriteData(id, true, nil)
			r, err := c.result(id)
			if err != nil || r.status != tt.want.status || r.reset != tt.want.reset || tt.want.message != "" &&
				r.message != tt.want.message {
				t.Errorf("answer %+v, %v; want %+v", r, err, tt.want)
			}
		})
	}
	c := dial(t, s)
	id := c.open("Unary")
	c.send(id, false, []byte("a"))
	c.send(id, true, []byte("b"))
	if r, err := c.result(id); err != nil || string(r.body[prefixSize:]) != "a" && r.status != "13" {
		t.Errorf("two messages: %+v, %v", r, err)
	}
}

// Text and binary metadata that a handler sets reaches the client, in headers and in trailers.
func TestMetadata(t *testing.T) {
	s := serve(t, nil, &grpc.ServiceDesc{ServiceName: "t.M",
		Streams: []grpc.StreamDesc{{StreamName: "Call", ServerStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error {
				in, _ := metadata.FromIncomingContext(st.Context())
				if err := grpc.SetHeader(st.Context(),
					metadata.Pairs("h", in.Get("user-agent")[0], "h-bin", in.Get("q-bin")[0])); err != nil {
					return err
				}
				if m, _ := grpc.Method(st.Context()); m != "/t.M/Call" {
					t.Errorf("Method = %s", m)
				}
				st.SetTrailer(metadata.Pairs("t", in.Get(":authority")[0], "t-bin", "\x00\xff"))
				return st.SendMsg(ptr("x"))
			}}}})
	conn := goClient(t, s)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "q-bin", "\x01\x00\x02")
	var header, trailer metadata.MD
	var out []byte
	if err := conn.Invoke(ctx, "/t.M/Call", ptr(""), &out, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(header.Get("h")[0], "grpc-go/") || header.Get("h-bin")[0] != "\x01\x00\x02" ||
		trailer.Get("t")[0] != s.addr || trailer.Get("t-bin")[0] != "\x00\xff" {
		t.Errorf("header %q, trailer %q", header, trailer)
	}
}

// A call whose headers differ from the previous call's in one field is served with its own value.
func TestHeadersThatDifferInOneField(t *testing.T) {
	s := serve(t, nil, &grpc.ServiceDesc{ServiceName: "t.M", Streams: []grpc.StreamDesc{{StreamName: "Call",
		Handler: func(_ any, st grpc.ServerStream) error {
			in, _ := metadata.FromIncomingContext(st.Context())
			said := strings.Join(append(in.Get("a"), in.Get("grpc-timeout")...), "+")
			if at, ok := st.Context().Deadline(); ok {
				said += " within " + time.Until(at).Round(time.Hour).String()
			}
			return st.SendMsg(ptr(said))
		}}}})
	c := dial(t, s)
	for i, tt := range []struct {
		more   []string
		want   string
		status string
	}{
		{[]string{"a", "1"}, "1", "0"},
		{[]string{"a", "1"}, "1", "0"},
		{[]string{"a", "1", "grpc-timeout", "1H"}, "1 within 1h0m0s", "0"},
		{[]string{"a", "1", "grpc-timeout", "2H"}, "1 within 2h0m0s", "0"},
		{[]string{"grpc-timeout", "3H", "a", "1"}, "1 within 3h0m0s", "0"},
		{[]string{"a", "1"}, "1", "0"},
		{[]string{"a", "2", "grpc-timeout", "4H"}, "2 within 4h0m0s", "0"},
		{[]string{"a", "2", "grpc-timeout", "x"}, "", "13"},
		{[]string{"a", "2", "a", "3", "grpc-timeout", "5H"}, "2+3 within 5h0m0s", "0"},
		{[]string{"a", "2", "grpc-timeout", "6H"}, "2 within 6h0m0s", "0"},
		{nil, "", "0"},
	} {
		id := c.openPath("/t.M/Call", tt.more...)
		c.send(id, true, nil)
		r, err := c.result(id)
		if err != nil || r.status != tt.status || tt.status == "0" && string(r.body[prefixSize:]) != tt.want {
			t.Errorf("call %d with %v: %q, status %s, %v; want %q, status %s", i, tt.more, r.body, r.status, err,
				tt.want, tt.status)
		}
	}
}

func TestPercentEncode(t *testing.T) {
	for in, want := range map[string]string{"plain text": "plain text", "100%": "100%25", "a\nb": "a%0Ab",
		"ü": "%C3%BC", "\xff": "%EF%BF%BD"} {
		if got := percentEncode(in); got != want {
			t.Errorf("percentEncode(%q) = %q, want %q", in, got, want)
		}
	}
}
