package httpapi

import (
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"nereid/engine/system/socket"
)

// now returns the time of the watcher's clock.
func (cs *connections) now() int64 { return int64(time.Since(cs.start) / tick) }

// watch enforces the time limits and notices clients that left, until stop is closed. It looks at the connections every
// tick while any is served, every slowTick while all are polled, and not at all while there are none.
func (cs *connections) watch(stop <-chan struct{}) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		wait, giveBack := cs.check()
		if giveBack {
			runtime.GC() // the next collection frees what pools held at this one
			debug.FreeOSMemory()
		}
		timer.Reset(wait)
		select {
		case <-stop:
			return
		case <-cs.kick:
		case <-timer.C:
		}
	}
}

// check looks at every connection once. wait is the pause until the next time. giveBack is true if many connections
// were polled and no other is served, so that their memory should go back to the operating system.
func (cs *connections) check() (wait time.Duration, giveBack bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := cs.now()
	cs.ticks.Store(now)
	for c := range cs.served {
		cs.checkServed(c, time.Duration(now-c.since.Load())*tick)
	}
	cs.checkPolled(now)
	cs.slow = len(cs.served) == 0
	switch {
	case !cs.slow:
		return tick, false
	case cs.idle.added >= manyPolled:
		cs.idle.added, giveBack = 0, true
	}
	if cs.open.Load() == 0 {
		return math.MaxInt64, giveBack
	}
	return slowTick, giveBack
}

// checkServed enforces the limits of one connection, which has been in its phase, or without progress in it, for that
// time. mu is held. Deadlines cannot be set on a connection that was closed meanwhile, which does not matter.
func (cs *connections) checkServed(c *conn, age time.Duration) {
	limit, stall := time.Duration(0), cs.opt.StallTimeout
	if cs.closing.Load() {
		stall = min(stall, closingStall)
	}
	switch phase(c.phase.Load()) {
	case idle:
		if age > cs.opt.pollAfter && !cs.idle.broken && c.pollable.Load() &&
			c.phase.CompareAndSwap(int32(idle), int32(releasing)) {
			_ = c.Conn.SetReadDeadline(longAgo)
			return
		}
		limit = cs.idleLimit(c)
	case readingHead:
		limit = min(cs.opt.HeaderTimeout, stall)
	case readingBody:
		limit = stall
	case writing:
		if age > stall {
			_ = c.SetWriteDeadline(longAgo)
		}
	case handling:
		if age >= tick && c.clientLeft() {
			c.cancel()
		}
	}
	if limit > 0 && age > limit {
		_ = c.SetReadDeadline(longAgo)
	}
}

// clientLeft reports whether the client closed its side and sent no further request before.
func (c *conn) clientLeft() bool {
	raw, err := c.rawConn()
	if err != nil {
		return false
	}
	var isEnd func([]byte) bool
	if c.isTLS() {
		isEnd = isCloseNotify
	}
	return socket.PeerClosed(raw, isEnd)
}

var longAgo = time.Unix(1, 0)
