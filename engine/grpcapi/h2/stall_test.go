package h2

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"nereid/engine/tensor"
)

const testStall = 400 * time.Millisecond

func patient(o *Options) { o.StallTimeout = testStall }

// A client that hangs within a frame or a header block, or makes no call, does not keep its connection.
func TestA27HungConnectionsAreClosed(t *testing.T) {
	for _, tt := range []struct {
		name string
		hang func(c *client)
	}{
		{"A27 settings and nothing else", func(*client) {}},
		{"A27 pings and nothing else", func(c *client) {
			_ = c.WritePing(false, [8]byte{})
			c.works("None") // an unknown method is no call
		}},
		{"A27 calls without a message", func(c *client) { _, _ = c.result(c.open("Echo")) }},
		{"A27 half a frame", func(c *client) {
			c.works("Echo")
			_, _ = c.Conn.Write([]byte{0, 0, 8, byte(http2.FramePing), 0, 0, 0, 0, 0, 1, 2})
		}},
		{"A27 half the head of a frame", func(c *client) {
			c.works("Echo")
			_, _ = c.Conn.Write([]byte{0, 0, 8})
		}},
		{"A27 half a header block", func(c *client) {
			c.works("Echo")
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.head("Echo")[:10]})
		}},
		{"A27 half a DATA frame", func(c *client) {
			id := c.open("Echo")
			_, _ = c.Conn.Write(append([]byte{0, 1, 0, 0, 1}, binary.BigEndian.AppendUint32(nil, id)...))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, patient)
			c := dial(t, s)
			if tt.name == "A27 pings and nothing else" {
				c.t = quiet{t}
			}
			tt.hang(c)
			_, err := io.Copy(io.Discard, c.Conn)
			if err != nil && isTimeout(err) {
				t.Error("the connection is still open after a minute")
			}
			s.idle(t, 0)
		})
	}
}

// quiet ignores failures of an answer that is not the one of a success.
type quiet struct{ testing.TB }

func (quiet) Errorf(string, ...any) {}

func isTimeout(err error) bool {
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

// A call whose message does not arrive ends, and one whose client does not read. The connection goes on.
func TestA27HungCallsEnd(t *testing.T) {
	for _, method := range []string{"Echo", "Unary"} {
		t.Run(method+" without a message", func(t *testing.T) {
			s := serve(t, patient)
			c := dial(t, s)
			if r, err := c.result(c.open(method)); err != nil || r.status != "4" {
				t.Errorf("%+v, %v; want DEADLINE_EXCEEDED (4)", r, err)
			}
			c.works("Echo")
			s.idle(t, 1)
		})
	}
	for _, method := range []string{"Echo", "Unary", "Stream"} {
		t.Run(method+" with half a message", func(t *testing.T) {
			s := serve(t, patient)
			c := dial(t, s)
			id := c.open(method)
			_ = c.WriteData(id, false, []byte{0, 0, 0, 0, 100, 1, 2, 3})
			if r, err := c.result(id); err != nil || r.status != "4" {
				t.Errorf("%+v, %v; want DEADLINE_EXCEEDED (4)", r, err)
			}
			c.works("Echo")
			s.idle(t, 1)
		})
		t.Run(method+" whose window stays closed", func(t *testing.T) {
			s := serve(t, patient)
			c := dial(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			id := c.open(method)
			c.send(id, true, make([]byte, 10_000))
			if r, err := c.result(id); err != nil || r.reset != http2.ErrCodeCancel {
				t.Errorf("%+v, %v; want a reset with CANCEL", r, err)
			}
			s.idle(t, 1)
		})
	}
}

// A client that announces a message, and sends it byte by byte, does not keep the memory for it.
func TestA27MessageThatArrivesByteByByte(t *testing.T) {
	for _, method := range []string{"Echo", "Unary", "Stream"} {
		s := serve(t, patient)
		c := dial(t, s)
		id := c.open(method)
		_ = c.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 1<<20))
		stop := make(chan struct{})
		var sending sync.WaitGroup
		sending.Go(func() {
			tick := time.NewTicker(testStall / 8)
			defer tick.Stop()
			for c.WriteData(id, false, []byte{1}) == nil {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
		if r, err := c.result(id); err != nil || r.status != "4" {
			t.Errorf("%s: %+v, %v; want DEADLINE_EXCEEDED (4)", method, r, err)
		}
		close(stop)
		sending.Wait()
	}
}

// A client that never reads from its socket loses the connection.
func TestA27ClientThatNeverReads(t *testing.T) {
	s := serve(t, patient)
	c := dial(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = c.WriteWindowUpdate(0, 1<<30)
	id := c.open("Stream")
	message := append([]byte{0, 0, 0, 0x3f, 0xfb}, make([]byte, maxFrame-5)...)
	go func() {
		for c.WriteData(id, false, message) == nil { // until the server resets the connection
		}
	}()
	s.idle(t, 0)
}

// What is slow and legitimate goes on: a stream without messages, a connection without calls after one, a call that
// takes long, and a message that arrives in small pieces.
func TestA27SlowClientsAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()                  // it mostly waits
	const stall = 3 * time.Second // a busy machine does not hold up a client for so long
	s := serve(t, func(o *Options) { o.StallTimeout = stall })
	idle, streaming, waiting, slow := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
	idle.works("Echo")
	stream := streaming.open("Stream")
	waiting.send(waiting.open("Wait"), true, []byte("x"))
	<-s.wait.begun
	id := slow.open("Echo")
	tick := time.NewTicker(stall / 4)
	defer tick.Stop()
	message := append(binary.BigEndian.AppendUint32([]byte{0}, 16), "0123456789abcdef"...)
	for piece := range slices.Chunk(message, 3) { // nearly twice as long as a client may stall
		<-tick.C
		message = message[len(piece):]
		_ = slow.WriteData(id, len(message) == 0, piece)
	}
	if r, err := slow.result(id); err != nil || r.status != "0" {
		t.Errorf("a message in small pieces: %+v, %v", r, err)
	}
	idle.works("Echo")
	streaming.send(stream, true, []byte("hello"))
	if r, err := streaming.result(stream); err != nil || r.status != "0" || string(r.body[prefixSize:]) != "hello" {
		t.Errorf("a stream that was silent: %+v, %v", r, err)
	}
	if _, calls := s.counts(); calls != 1 {
		t.Errorf("%d calls are open, want the one that takes long", calls)
	}
}

// A client that compresses a large message sends nothing meanwhile, and has not opened the call yet.
func TestA27TheFirstCallMayTakeLong(t *testing.T) {
	const stall = int64(time.Minute)
	for _, tt := range []struct {
		name           string
		maxConnections int
		call           bool  // one was opened, without a message
		limit          int64 // of the age of the connection
	}{
		{"no call", 10, false, firstCallStalls * stall},
		{"no call while connections are scarce", 1, false, stall},
		{"a call without a message", 10, true, stall},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(o *Options) { o.StallTimeout, o.MaxConnections = time.Hour, tt.maxConnections })
			c := dial(t, s)
			if tt.call {
				_ = c.WriteRSTStream(c.open("Echo"), http2.ErrCodeCancel)
			}
			_ = c.WritePing(false, [8]byte{})
			for acknowledged := false; !acknowledged; {
				f, err := c.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				ping, ok := f.(*http2.PingFrame)
				acknowledged = ok && ping.IsAck()
			}
			s.settle(t)
			endsAt := func(age int64) bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				ends := false
				for conn := range s.conns {
					conn.checkStall(conn.life.began+age, stall, s.firstCallLimit(stall))
					conn.mu.Lock()
					ends = conn.life.stage != drainNone
					conn.mu.Unlock()
				}
				return ends
			}
			if endsAt(tt.limit) {
				t.Error("the connection ends too early")
			}
			if !endsAt(tt.limit + 1) {
				t.Error("the connection does not end")
			}
		})
	}
}

// The time in which a call is executed does not count: its answer may wait for the client's window like any other.
func TestA27AnswerOfALongCallMayWait(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	s := serve(t, func(o *Options) { o.StallTimeout = time.Hour }, &grpc.ServiceDesc{ServiceName: "t.L",
		Streams: []grpc.StreamDesc{{StreamName: "Call", Handler: func(_ any, st grpc.ServerStream) error {
			var b []byte
			if err := st.RecvMsg(&b); err != nil {
				return err
			}
			close(begun)
			<-answer
			return st.SendMsg(&b)
		}}}})
	c := dial(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	id := c.openPath("/t.L/Call")
	c.send(id, true, []byte("hello"))
	<-begun
	const stall = int64(time.Minute)
	now := int64(0)
	look := func(after int64) (queued int) {
		now += after
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.conns {
			conn.checkStall(now, stall, stall)
			conn.mu.Lock()
			for _, st := range conn.streams {
				queued += st.send.queued
			}
			conn.mu.Unlock()
		}
		return queued
	}
	s.settle(t)
	look(1)
	look(2 * stall) // it is still executed
	close(answer)
	for deadline := time.Now().Add(time.Minute); look(0) == 0; time.Sleep(time.Millisecond) { // nothing signals it
		if time.Now().After(deadline) {
			t.Fatal("there is no answer")
		}
	}
	s.settle(t)
	look(stall / 2)
	_ = c.WriteWindowUpdate(id, 1<<20)
	if r, err := c.result(id); err != nil || r.status != "0" {
		t.Errorf("%+v, %v; want the answer", r, err)
	}
}

// A client cannot send the rest of a message while its window is closed, because the handler takes no messages.
func TestA27MessageMayWaitForTheWindow(t *testing.T) {
	take := make(chan struct{})
	s := serve(t, func(o *Options) { o.StallTimeout = time.Hour }, &grpc.ServiceDesc{ServiceName: "t.L",
		Streams: []grpc.StreamDesc{{StreamName: "Busy", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error {
				<-take
				for {
					var b []byte
					if err := st.RecvMsg(&b); err == io.EOF {
						return nil
					} else if err != nil {
						return err
					}
				}
			}}}})
	c := dial(t, s)
	id := c.openPath("/t.L/Busy")
	const size, count = 100_000, 11 // the last one does not fit
	message := append(binary.BigEndian.AppendUint32([]byte{0}, size), make([]byte, size)...)
	all := bytes.Repeat(message, count)
	send := func(b []byte, end bool) {
		for len(b) > maxFrame {
			_ = c.WriteData(id, false, b[:maxFrame])
			b = b[maxFrame:]
		}
		_ = c.WriteData(id, end, b)
	}
	send(all[:streamWindow], false)
	const stall = int64(time.Minute)
	now := int64(0)
	look := func(after int64) (window int) {
		now += after
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.conns {
			conn.checkStall(now, stall, stall)
			conn.mu.Lock()
			for _, st := range conn.streams {
				window += st.recvWindow
			}
			conn.mu.Unlock()
		}
		return window
	}
	for deadline := time.Now().Add(time.Minute); look(0) != 0; time.Sleep(time.Millisecond) { // nothing signals it
		if time.Now().After(deadline) {
			t.Fatal("the window is not closed")
		}
	}
	s.settle(t)
	look(1)
	look(2 * stall)
	close(take)
	for open := false; !open; {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		w, ok := f.(*http2.WindowUpdateFrame)
		if h, ends := f.(*http2.MetaHeadersFrame); ends {
			t.Fatalf("the call ended: %v", h.Fields)
		}
		open = ok && w.StreamID == id
	}
	send(all[streamWindow:], true)
	if r, err := c.result(id); err != nil || r.status != "0" {
		t.Errorf("%+v, %v; want the end of the stream", r, err)
	}
}

// GracefulStop does not wait for clients that hang.
func TestA27GracefulStopWithHungClients(t *testing.T) {
	s := serve(t, nil)
	for _, hang := range []func(c *client){
		func(*client) {},
		func(c *client) { c.works("Echo") }, // it will not answer the ping
		func(c *client) { c.open("Echo") },
		func(c *client) { _, _ = c.Conn.Write([]byte{0, 0, 8}) },
	} {
		c := dial(t, s)
		c.works("Echo")
		hang(c)
	}
	begin := time.Now()
	s.GracefulStop()
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The cost of SETTINGS does not grow with entries times calls: frames of many entries are refused, and of one frame
// only the last value of a setting counts.
func TestA27SettingsWithManyEntries(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s)
	many := make([]http2.Setting, maxSettings+1)
	for i := range many {
		many[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
	}
	id := c.open("Stream")
	_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.send(id, true, []byte("0123456789"))
	for {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := f.(*http2.DataFrame); ok {
			if d.Length != 10 { // the window is that of the last entry
				t.Errorf("%d bytes of DATA in a window of 10", d.Length)
			}
			break
		}
	}
	_ = c.WriteSettings(many...)
	c.expectGone(http2.ErrCodeEnhanceYourCalm)
}

func TestA27MaxConnections(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxConnections = 2 })
	first, second := dial(t, s), dial(t, s)
	first.works("Echo")
	second.works("Echo")
	if n, _ := io.Copy(io.Discard, s.dialRaw(t)); n != 0 {
		t.Errorf("a third connection was sent %d bytes", n)
	}
	first.works("Echo")
	_ = second.Close()
	s.idle(t, 1)
	dial(t, s).works("Echo")
}

// The bytes of calls that ended within a message go back to the budget although the client sends nothing more.
func TestA27_A25SilentConnectionHoldsNoMemory(t *testing.T) {
	budget := tensor.NewBudget(64 << 20)
	s := serve(t, func(o *Options) { patient(o); o.Pool = &tensor.Pool{Budget: budget} })
	c := dial(t, s)
	c.works("Echo") // a connection without any call would be closed
	for _, method := range []string{"Echo", "Unary", "Stream"} {
		id := c.open(method)
		_ = c.WriteData(id, false, append(binary.BigEndian.AppendUint32([]byte{0}, 4<<20), make([]byte, 1000)...))
		if r, err := c.result(id); err != nil || r.status != "4" {
			t.Errorf("%s: %+v, %v; want DEADLINE_EXCEEDED (4)", method, r, err)
		}
	}
	empty := func() {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); budget.Used() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) { // nothing signals it
				t.Fatalf("%d bytes of the budget are still taken", budget.Used())
			}
		}
	}
	empty()
	c.works("Echo")
	s.idle(t, 1)
	id := c.open("Echo") // the connection ends within a frame
	_ = c.WriteData(id, false, append(binary.BigEndian.AppendUint32([]byte{0}, 4<<20), make([]byte, 1000)...))
	_, _ = c.Conn.Write(binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0, 0}, id))
	s.idle(t, 0)
	empty()
}
