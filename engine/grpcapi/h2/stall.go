package h2

import (
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// This file ends connections and calls whose clients do nothing. One timer of the server checks all connections. It
// costs the calls little: they count their progress, and the timer compares the counts.

// progress is a count of frames or writes, with the count that the timer saw last.
type progress struct {
	count uint32
	seen  uint32
	since int64 // when the timer saw seen for the first time; 0: never
}

// moved notes progress.
func (p *progress) moved() { p.count++ }

// idle returns for how long there has been no progress, in nanoseconds. Only the timer calls it.
func (p *progress) idle(now int64) int64 {
	if p.since == 0 || p.seen != p.count {
		p.seen, p.since = p.count, now
	}
	return now - p.since
}

// watch starts the timer, unless it runs or there are no connections. The timer checks all connections, and calls watch
// again. s.mu is held.
func (s *Server) watch() {
	if s.watched || len(s.conns) == 0 {
		return
	}
	s.watched = true
	pause := min(s.o.StallTimeout/8, maxStallCheck)
	if s.stopping {
		pause = min(pause, closingStall/8)
	}
	time.AfterFunc(pause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		stall := int64(s.o.StallTimeout)
		if s.stopping {
			stall = min(stall, int64(closingStall))
		}
		now, firstCall := s.now(), s.firstCallLimit(stall)
		for c := range s.conns {
			c.checkStall(now, stall, firstCall)
		}
		s.watched = false
		s.watch()
	})
}

// firstCallLimit returns the age at which a connection ends on which no call was opened: firstCallStalls times stall,
// but only stall if more than half of the connections that the server takes are open. s.mu is held.
func (s *Server) firstCallLimit(stall int64) int64 {
	if len(s.conns) > s.o.MaxConnections/2 {
		return stall
	}
	return firstCallStalls * stall
}

// checkStall closes a connection that has made no progress for stall nanoseconds. Otherwise it ends those of its calls
// that have made none. It begins a graceful end of a connection that has made no call at the age firstCall.
func (c *conn) checkStall(now, stall, firstCall int64) {
	c.mu.Lock()
	silent := now - c.reader.lastRead.Load()
	c.write.count = c.write.pieces.Load()
	noCall := false
	switch {
	case c.closed || !c.life.settled: // a connection without settings has a deadline
	case c.reader.within.Load() && silent > stall, // in a frame or a header block
		c.write.active && c.write.progress.idle(now) > stall:
		c.srv.o.Log.Debug("gRPC connection closed: its client hangs", "peer", c.nc.RemoteAddr().String())
		c.close()
	default:
		if c.lastID > 0 {
			firstCall = stall // calls were opened, but none was served
		}
		noCall = !c.life.served && len(c.streams) == 0 && now-c.life.began > firstCall
		for _, s := range c.streams {
			s.check(now, stall)
		}
		c.reader.releaseLeft() // the reader may wait for long
		c.wakeWriter()
	}
	c.mu.Unlock()
	if noCall {
		c.life.drain("no_call")
	}
}

var statusStalled = grpcstatus.Error(codes.DeadlineExceeded,
	"the call's message did not arrive: the client sent nothing for too long; send the call again")

// check ends a call whose message does not arrive, or whose client does not read the response. A client that streams
// may be silent between messages. A client that receives a stream may take streamStalls times as long. While a window
// is closed the client cannot send: its messages wait for a handler. c.mu is held.
func (s *Stream) check(now, stall int64) {
	c := s.c
	single := s.req.method == nil || !s.req.method.clientStreams
	sending := s.send.queued > 0
	open := s.recvWindow > 0 && c.recv.left > 0
	receiving := !s.finished && !s.remoteClosed && open && (single || s.within.Load())
	if !sending && !receiving {
		s.progress.since = 0 // the time in which nothing is expected does not count
		return
	}
	idle := s.progress.idle(now)
	switch {
	case sending && s.req.method != nil && s.req.method.serverStreams && idle <= streamStalls*stall:
	case idle <= stall:
	case sending:
		c.reset(s, codeCancel, statusCancelled)
	default:
		c.finish(s, statusStalled)
		if s.call != nil {
			s.call.fault = statusStalled
			s.call.cancel()
			s.call.notify()
		}
	}
}
