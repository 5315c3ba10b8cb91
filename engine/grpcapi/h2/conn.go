package h2

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/system/socket"
)

// conn is one connection. Its reader is the goroutine that reads frames, its writer the one that resumes inline calls
// and writes frames. While a goroutine writes, it does not hold mu, so that others can append to out.
type conn struct {
	srv    *Server
	nc     net.Conn
	socket *socket.Conn    // nc, if that is one
	ctx    context.Context // has the peer; ends with the connection
	cancel context.CancelFunc
	reader reader

	handlers sync.WaitGroup // goroutines of calls

	mu sync.Mutex // guards the rest, and what Stream says

	streams map[uint32]*Stream // open calls
	lastID  uint32             // the highest stream that the client has opened; only the reader changes it
	closed  bool
	life    lifetime
	inline  inlineCalls

	out     *output // frames to be written
	write   writeState
	enc     encoder
	peer    peerLimits
	blocked []*Stream // wait for peer.window, or for room in out

	recv receiveWindow
}

// writeState is about the write that is under way, if there is one.
type writeState struct {
	active  bool          // a goroutine is writing
	spare   *output       // the other buffer; nil while it is being written
	copyAll bool          // the socket gains nothing from output in pieces
	waiting bool          // a goroutine waits for done
	done    *sync.Cond    // a write has ended
	pieces  atomic.Uint32 // that have been written
	progress
}

// peerLimits is what the client allows.
type peerLimits struct {
	window       int64 // bytes of DATA of all calls
	streamWindow int64 // initially, of a new call
	frame        int   // bytes of a frame's payload
}

// receiveWindow is the flow control of what the client sends, for all calls of the connection.
type receiveWindow struct {
	left       int // bytes that the client may send
	uncredited int // bytes that have come and were not returned to the window
	unread     int // bytes of whole messages that no handler has taken
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		srv: s, nc: nc, streams: map[uint32]*Stream{}, out: &output{},
		inline: inlineCalls{wakeup: make(chan struct{}, 1)},
		write:  writeState{spare: &output{}},
		peer:   peerLimits{window: initialWindow, streamWindow: initialWindow, frame: maxFrame},
		recv:   receiveWindow{left: connWindow},
	}
	c.life.c = c
	c.write.done = sync.NewCond(&c.mu)
	c.reader = reader{c: c, buf: make([]byte, 4<<10)}
	c.reader.mayReserve = c.reader.reserve
	return c
}

// serve runs the connection until the client or the server closes it, and waits for its goroutines.
func (c *conn) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.runWriter()
	}()
	err := c.reader.run()
	var fault *connError
	if errors.As(err, &fault) {
		c.srv.o.Log.Debug("gRPC connection closed for a fault of its client",
			"peer", c.nc.RemoteAddr().String(), "err", err)
		c.goAway(fault)
	}
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.cancel()
	<-written
	c.handlers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams { // that were not begun
		if !s.inline.begun {
			s.recv.drop()
		}
	}
	c.reader.at = nil
	c.reader.releaseLeft()
}

// close closes the socket and cancels the calls. c.mu is held.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.closed = true
	_ = c.nc.Close() // nothing more can be done
	for _, t := range c.life.timers {
		if t != nil {
			t.Stop()
		}
	}
	gone := grpcstatus.Error(codes.Canceled, "the client's connection has ended")
	for _, s := range c.streams {
		c.abort(s, gone)
	}
	c.blocked = nil
	if !c.write.active {
		c.out.reset()
	}
	c.write.done.Broadcast()
	c.wakeWriter()
}
