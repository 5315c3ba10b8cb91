package httpapi

import (
	"runtime"
	"runtime/debug"
	"time"
)

const (
	tickTime = 50 * time.Millisecond
	// dozeAfter is how many quiet ticks pass before the watcher slows down, dozeTime how slow it gets.
	dozeAfter = 20
	dozeTime  = time.Second
)

// watch enforces the time limits and notices clients that went away, until stop is closed. It looks at all connections
// twenty times a second while requests are handled, once a second while none is, and not at all without connections.
func (s *Server) watch(stop <-chan struct{}) {
	start := time.Now()
	timer := time.NewTimer(tickTime)
	defer timer.Stop()
	quiet := 0
	for {
		wait := tickTime
		if quiet >= dozeAfter {
			s.dozing.Store(true) // before the connections are counted: a new one either is counted or kicks
			if wait = dozeTime; s.open.Load() == 0 {
				wait = 24 * time.Hour
			}
		}
		timer.Reset(wait)
		select {
		case <-stop:
			return
		case <-s.kick:
			quiet = 0
		case <-timer.C:
		}
		s.dozing.Store(false)
		now := int64(time.Since(start) / tickTime)
		s.tick.Store(now)
		if wait > dozeTime {
			s.restamp(now)
		}
		if quiet++; s.look(now) {
			quiet = 0
		} else if s.wantsMemoryBack() {
			runtime.GC() // pools let go at the second collection
			debug.FreeOSMemory()
		}
	}
}

// restamp corrects the connections that came while the clock stood.
func (s *Server) restamp(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.since.Store(now)
	}
}

// wake ends the watcher's doze. It is called at the start of every request and costs one load of a shared word.
func (s *Server) wake() {
	if s.dozing.Load() && s.dozing.CompareAndSwap(true, false) {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// look checks every connection once and reports whether any is busy.
func (s *Server) look(now int64) (busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		p, age := phase(c.phase.Load()), time.Duration(now-c.since.Load())*tickTime
		busy = busy || p != idle && p != parking
		limit := time.Duration(0)
		switch p {
		case idle:
			if age > s.opt.parkAfter && !s.lot.broken && c.parkable.Load() &&
				c.phase.CompareAndSwap(int32(idle), int32(parking)) {
				_ = c.Conn.SetReadDeadline(longAgo) // fails only if the connection is closed
				continue
			}
			limit = s.opt.IdleTimeout
		case heading:
			limit = s.opt.HeaderTimeout
		case reading:
			limit = s.opt.StallTimeout
		case writing:
			if limit = s.opt.StallTimeout; age > limit {
				_ = c.SetWriteDeadline(longAgo) // fails only if the connection is closed
				continue
			}
		case working:
			if age >= tickTime && c.hungUp() {
				c.leave()
			}
			continue
		}
		if limit > 0 && age > limit {
			_ = c.SetReadDeadline(longAgo) // fails only if the connection is closed
		}
	}
	s.lookParked(now)
	return busy
}

var longAgo = time.Unix(1, 0)
