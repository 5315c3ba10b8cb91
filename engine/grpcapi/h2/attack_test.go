package h2

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/keepalive"
)

func TestA13Attacks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range []struct {
		name   string
		attack func(c *client)
		code   http2.ErrCode
	}{
		{"A13 rapid reset", func(c *client) {
			for range 300 {
				id := c.open("Wait")
				c.send(id, true, nil)
				_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 faulty requests in a row", func(c *client) {
			for range 300 {
				c.open("Echo", "Upper", "case")
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 CONTINUATION without end", func(c *client) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head("Echo")})
			for range 1000 {
				_ = c.WriteContinuation(1, false, nil)
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 header block without end", func(c *client) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head("Echo")})
			for range 14 {
				_ = c.WriteContinuation(1, false, make([]byte, maxFrame))
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 SETTINGS flood", func(c *client) {
			for range 2000 {
				_ = c.WriteSettings()
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 PING flood", func(c *client) {
			for range 2000 {
				_ = c.WritePing(false, [8]byte{})
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 empty DATA flood", func(c *client) {
			id := c.open("Echo")
			for range 20_000 {
				_ = c.WriteData(id, false, nil)
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"A13 connection window above its limit", func(c *client) {
			_ = c.WriteWindowUpdate(0, 1<<31-1)
		}, http2.ErrCodeFlowControl},
		{"A13 initial window above its limit", func(c *client) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		}, http2.ErrCodeFlowControl},
		{"A13 header table that no encoder has", func(c *client) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0x7f},
				EndHeaders: true})
		}, http2.ErrCodeCompression},
		{"A13 no HTTP/2", func(c *client) { _, _ = io.WriteString(c.Conn, "GET / HTTP/1.1\r\n\r\n") },
			http2.ErrCodeFrameSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(o *Options) { o.MaxConcurrentStreams = 100 })
			other := dial(t, s)
			other.works("Echo")
			c := dial(t, s)
			go tt.attack(c)
			c.expectGone(tt.code)
			other.works("Echo")
			s.idle(t, 1)
		})
	}
}

func TestA13HugeHeaders(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	for range 3 {
		id := c.next
		c.next += 2
		block := c.head("Echo", "x", strings.Repeat("y", 80_000)) // Huffman: some 70 KB
		first := block[:maxFrame]
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: true})
		for block = block[maxFrame:]; len(block) > maxFrame; block = block[maxFrame:] {
			_ = c.WriteContinuation(id, false, block[:maxFrame])
		}
		_ = c.WriteContinuation(id, true, block)
		if r, err := c.result(id); err != nil || r.status != "8" {
			t.Fatalf("80 KB of headers: %+v, %v; want RESOURCE_EXHAUSTED (8)", r, err)
		}
	}
	c.works("Echo")
}

// Clients with a window of zero hold up only their own responses.
func TestA13ZeroWindow(t *testing.T) {
	s := serve(t, nil)
	var stalled []*client
	for range 4 {
		c := dial(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for _, method := range []string{"Echo", "Unary", "Stream"} {
			for range 50 {
				c.send(c.open(method), true, make([]byte, 10_000))
			}
		}
		stalled = append(stalled, c)
	}
	other := dial(t, s)
	other.works("Echo")
	// One client then opens its window.
	_ = stalled[0].WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	sizes := map[uint32]int{}
	for ends := 0; ends < 150; {
		f, err := stalled[0].ReadFrame()
		if err != nil {
			t.Fatalf("after %d answers: %v", ends, err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			sizes[f.StreamID] += len(f.Data())
			_ = stalled[0].WriteWindowUpdate(0, f.Length)
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				ends++
			}
		}
	}
	for id := uint32(1); id < 300; id += 2 {
		if sizes[id] != 10_000+prefixSize {
			t.Errorf("stream %d: %d bytes, want 10,000 and a prefix", id, sizes[id])
		}
	}
	for _, c := range stalled {
		_ = c.Close()
	}
	s.idle(t, 1)
}

// The output that waits for a client's socket is bounded. When it is full, the reader waits too.
func TestA13ClientThatDoesNotRead(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Enforcement = keepalive.EnforcementPolicy{MinTime: time.Nanosecond, PermitWithoutStream: true}
	})
	c := dial(t, s)
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	wrote := 0
	for { // each ping is answered, and the answers are not read
		if err := c.WritePing(false, [8]byte{}); err != nil {
			break
		}
		if wrote++; wrote > 5_000_000 {
			t.Fatal("5,000,000 pings were taken of a client that reads no answer")
		}
	}
	other := dial(t, s)
	other.works("Echo")
	_ = c.Close()
	_ = other.Close()
	s.idle(t, 0)
}

func TestA14MessageOverTheLimit(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxReceiveBytes = 100_000 })
	c := dial(t, s)
	for _, method := range []string{"Echo", "Unary", "Stream"} {
		for size, want := range map[int]string{100_000: "0", 100_001: "8", 1_000_000: "8"} {
			id := c.open(method)
			c.send(id, true, make([]byte, size))
			r, err := c.result(id)
			if err != nil || r.status != want {
				t.Errorf("%s of %d bytes: %+v, %v; want status %s", method, size, r.status, err, want)
			}
		}
	}
}

// Memory for a message grows with the bytes that have arrived. Announced bytes count only up to what the connection's
// window lets the client send at once.
func TestA14MemoryIsNotMadeForAnnouncedBytes(t *testing.T) {
	o := Options{Codec: rawCodec{}}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	c := &conn{streams: map[uint32]*Stream{}}
	c.reader.c = c
	held := 0
	announce := func(size uint32) int {
		s := &Stream{}
		c.streams[uint32(len(c.streams))] = s
		prefix := binary.BigEndian.AppendUint32([]byte{0}, size)
		if _, done, err := s.recv.msg.feed(append(prefix, 1, 2, 3), o.MaxReceiveBytes, o.Pool,
			c.reader.reserve); done || err != nil {
			t.Fatalf("feed = %v, %v", done, err)
		}
		n := len(s.recv.msg.body.Bytes())
		held += n
		return n
	}
	if n := announce(1<<31 - 1); n > wholeAt {
		t.Errorf("%d bytes are held for a message of which 3 have come", n)
	}
	for range 100 {
		announce(1 << 20)
	}
	if limit := connWindow + 101*wholeAt; held > limit {
		t.Errorf("%d bytes are held for messages of which 3 bytes have come each, want at most %d", held, limit)
	}
	clear(c.streams) // they have been cancelled
	if n := announce(1 << 20); n != 1<<20 {
		t.Errorf("%d bytes are held for the first message after the others, want all", n)
	}
}

func TestA22ClientLeaves(t *testing.T) {
	body := bytes.Repeat([]byte{1}, 500_000)
	for _, tt := range []struct {
		name  string
		until func(s *server, c *client)
		begun bool
	}{
		{"A22 before the preface ends", nil, false},
		{"A22 in a header block", func(_ *server, c *client) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head("Wait")})
		}, false},
		{"A22 after the headers", func(_ *server, c *client) { c.open("Wait"); c.open("Stream"); c.open("Unary") },
			false},
		{"A22 in the message", func(_ *server, c *client) {
			for _, m := range []string{"Wait", "Stream", "Unary"} {
				_ = c.WriteData(c.open(m), false, []byte{0, 0, 1, 0, 0, 5, 5, 5})
			}
		}, false},
		{"A22 while it runs", func(s *server, c *client) {
			c.send(c.open("Wait"), true, nil)
			<-s.wait.begun
		}, true},
		{"A22 a large message runs", func(s *server, c *client) {
			c.send(c.open("Wait"), true, body)
			<-s.wait.begun
		}, true},
		{"A22 while the answer is written", func(_ *server, c *client) {
			for _, m := range []string{"Echo", "Unary", "Stream"} {
				id := c.open(m)
				c.send(id, true, body)
				for { // its headers have arrived; the windows stop the rest
					f, err := c.ReadFrame()
					if err != nil || f.Header().StreamID == id && f.Header().Type == http2.FrameHeaders {
						break
					}
				}
			}
		}, false},
	} {
		for _, how := range []string{"close", "reset"} {
			t.Run(tt.name+" by "+how, func(t *testing.T) {
				s := serve(t, nil)
				if tt.until == nil {
					nc := s.dialRaw(t)
					_, _ = io.WriteString(nc, http2.ClientPreface[:7])
					_ = nc.Close()
					s.idle(t, 0)
					return
				}
				c := dial(t, s)
				tt.until(s, c)
				if how == "close" {
					_ = c.Close()
				} else {
					for id := uint32(1); id < c.next; id += 2 {
						_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
					}
					_ = c.WriteWindowUpdate(0, 1<<20)
					if c.next > 1 { // an interrupted header block ends the connection
						c.works("Echo")
					}
					_ = c.Close()
				}
				s.idle(t, 0)
				if tt.begun {
					if err := <-s.wait.ended; code(err) != "Canceled" {
						t.Errorf("the call ended with %v, want Canceled", err)
					}
				}
			})
		}
	}
}

func TestA23Deadline(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	id := c.open("Wait", "grpc-timeout", "20m")
	c.send(id, true, nil)
	if r, err := c.result(id); err != nil || r.status != "4" {
		t.Errorf("while it runs: %+v, %v; want DEADLINE_EXCEEDED (4)", r, err)
	}
	if err := <-s.wait.ended; code(err) != "DeadlineExceeded" {
		t.Errorf("the call ended with %v, want DeadlineExceeded", err)
	}
	for _, method := range []string{"Wait", "Unary", "Stream"} {
		id = c.open(method, "grpc-timeout", "20m") // the message never comes
		if r, err := c.result(id); err != nil || r.status != "4" {
			t.Errorf("%s before its message: %+v, %v; want DEADLINE_EXCEEDED (4)", method, r, err)
		}
	}
	s.idle(t, 1)
}
