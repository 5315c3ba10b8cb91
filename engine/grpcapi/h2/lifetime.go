package h2

import (
	"io"
	"math/rand/v2"
	"time"
)

// lifetime is about the end of a connection: keepalive, limits of age and idleness, graceful shutdown.
// Its methods lock conn.mu, which also guards its fields.
type lifetime struct {
	c         *conn
	timers    [timerCount]*time.Timer
	idleSince time.Time
	stage     drainStage
	hangUp    bool  // close the connection once all is written
	settled   bool  // the client's first settings have come
	served    bool  // a call was let in
	began     int64 // when the connection began, by the server's clock
	pinged    int64 // when the client was last asked whether it is alive, by the server's clock
	pingOK    bool  // frames of a call were sent since the client's last ping
}

// The timers of a connection.
const (
	timerAlive = iota
	timerIdle
	timerAge
	timerGrace
	timerDrain
	timerCount
)

// drainStage is the progress of a graceful end.
type drainStage int

const (
	drainNone      drainStage = iota
	drainAnnounced            // the client has been sent a GOAWAY; calls that it opens before it reads that are served
	drainRefusing             // no new calls are served
)

// start starts the timers of a connection. They stop with it.
func (l *lifetime) start() {
	c := l.c
	k := &c.srv.o.Keepalive
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader.lastRead.Store(c.srv.now())
	l.idleSince, l.began = time.Now(), c.srv.now()
	if age := k.MaxConnectionAge; age != forever {
		// The jitter keeps clients from reconnecting all at once.
		jitter := (rand.Float64() - 0.5) * 0.2 * float64(age) //nolint:gosec // not a secret
		l.after(timerAge, age+time.Duration(jitter), l.endAge)
	}
	if k.MaxConnectionIdle != forever {
		l.after(timerIdle, k.MaxConnectionIdle, l.checkIdle)
	}
	l.after(timerAlive, k.Time, l.checkAlive)
}

// after calls f later, unless the connection ends before. c.mu is held.
func (l *lifetime) after(timer int, d time.Duration, f func()) {
	c := l.c
	if c.closed {
		return
	}
	l.timers[timer] = time.AfterFunc(d, f)
}

// endAge ends a connection that has reached its maximum age.
func (l *lifetime) endAge() {
	c := l.c
	l.drain("max_age")
	grace := c.srv.o.Keepalive.MaxConnectionAgeGrace
	if grace == forever {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.after(timerGrace, grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.close()
	})
}

func (l *lifetime) checkIdle() {
	c := l.c
	limit := c.srv.o.Keepalive.MaxConnectionIdle
	c.mu.Lock()
	left := limit - time.Since(l.idleSince)
	if len(c.streams) > 0 {
		left = limit
	}
	if left > 0 {
		l.after(timerIdle, left, l.checkIdle)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	l.drain("max_idle")
}

// checkAlive pings a client that has sent nothing for the keepalive time, and closes the connection if it has still
// sent nothing when the timeout ends.
func (l *lifetime) checkAlive() {
	c := l.c
	k := &c.srv.o.Keepalive
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	now, last := c.srv.now(), c.reader.lastRead.Load()
	if left := k.Time - time.Duration(now-last); left > 0 {
		l.after(timerAlive, left, l.checkAlive)
		return
	}
	if l.pinged <= last { // the client has sent something since the last ping, or there was none
		l.pinged = now
		c.out.ping("nereid\x00\x00", 0)
		c.wakeWriter()
	}
	left := k.Timeout - time.Duration(now-l.pinged)
	if left <= 0 {
		c.close()
		return
	}
	l.after(timerAlive, min(k.Time, left), l.checkAlive)
}

// drain begins a graceful end. The client is sent a GOAWAY that refuses no call, and a ping. When it answers the
// ping, it knows that it must not open calls: those that it has opened are the last.
func (l *lifetime) drain(reason string) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || l.stage != drainNone {
		return
	}
	if !l.settled { // the client has made no call yet
		c.close()
		return
	}
	l.stage = drainAnnounced
	c.out.goAway(maxWindow, codeNo, reason)
	c.out.ping(drainPing, 0)
	l.after(timerDrain, drainTimeout, l.refuseCalls)
	c.wakeWriter()
}

// drainPing is the payload of the ping that follows the first GOAWAY.
const drainPing = "\x01\x06\x01\x08\x00\x03\x03\x09"

// refuseCalls is the second half of a graceful end.
func (l *lifetime) refuseCalls() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || l.stage != drainAnnounced {
		return
	}
	l.stage = drainRefusing
	c.out.goAway(c.lastID, codeNo, "graceful_stop")
	l.hangUp = len(c.streams) == 0
	c.wakeWriter()
}

// goAway sends the client the reason why the connection ends, and waits until it has read it, for at most lingerTime.
func (c *conn) goAway(e *connError) {
	_ = c.nc.SetDeadline(time.Now().Add(lingerTime)) // also ends a write that is stuck
	c.mu.Lock()
	for c.write.active && !c.closed {
		c.write.waiting = true
		c.write.done.Wait()
	}
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.out.goAway(c.lastID, e.code, e.text)
	c.flush()
	c.mu.Unlock()
	c.closeWrite()
	// Closing a socket with unread bytes would discard the GOAWAY on the client's side.
	_, _ = io.CopyN(io.Discard, c.nc, 256<<10) // the connection ends in any case
}

func (c *conn) closeWrite() {
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // the connection ends in any case
	}
}

// hangUp ends a connection that has nothing more to send: the client reads the end, and closes. c.mu is held.
func (c *conn) hangUp() {
	c.life.hangUp = false
	c.closeWrite()
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime)) // the reader ends then at the latest
}
