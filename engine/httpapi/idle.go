package httpapi

import (
	"errors"
	"net"
	"syscall"
	"time"

	"nereid/engine/system/socket"
)

// Idle connections. A connection without a request costs a goroutine, its stack, the HTTP library's read buffer and
// an exchange. After pollAfter the watcher ends its read. The library takes that for the end of the connection and
// frees all of it, but the connection stays open and is polled until the client sends something; then it is served
// again. No request waits for any of this.
//
// A connection goes from idle to releasing (set by the watcher) to polled (by its goroutine), or back to readingHead
// if a request arrived meanwhile. A polled connection becomes idle again, or it is closed.

// manyPolled is the number of newly polled connections whose memory is worth giving back to the operating system.
const manyPolled = 256

// idleSet has the polled connections. connections.mu guards it.
type idleSet struct {
	byFD    map[int]*conn
	set     *socket.PollSet // nil before the first connection is polled
	broken  bool            // there is no poll set, or no room in it: connections are not polled any more
	checked int64           // the watcher's tick at which the idle times were last checked
	added   int             // connections since memory was given back
}

// poll moves a connection to the polled ones. If it returns false, the connection is closed.
func (cs *connections) poll(c *conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closing.Load() {
		_ = c.Conn.Close() // nothing is lost: no request was under way
		return false
	}
	fd, err := cs.watchFD(c)
	if err != nil {
		cs.idle.broken = true
		cs.opt.Log.Warn("idle HTTP connections cannot be polled; each keeps its memory", "err", err)
		cs.resume(c)
		return true
	}
	c.fd = fd
	delete(cs.served, c)
	cs.idle.byFD[fd] = c
	cs.idle.added++
	return true
}

// watchFD adds c to the poll set. mu is held.
func (cs *connections) watchFD(c *conn) (fd int, err error) {
	p := &cs.idle
	if p.set == nil {
		if p.set, err = socket.NewPollSet(); err != nil {
			return 0, err
		}
		p.byFD = map[int]*conn{}
		set := p.set
		cs.running.Go(func() { cs.attend(set) })
	}
	raw, err := c.rawConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(n uintptr) { fd = int(n); err = p.set.Add(fd) }); cerr != nil {
		err = cerr
	}
	return fd, err
}

// attend serves the polled connections that have something to read, until the set is closed.
func (cs *connections) attend(set *socket.PollSet) {
	for {
		ready, err := set.Wait()
		if err != nil {
			return // closed
		}
		cs.mu.Lock()
		for _, fd := range ready {
			if c := cs.idle.byFD[fd]; c != nil {
				cs.unpoll(c)
				cs.resume(c)
			}
		}
		cs.mu.Unlock()
	}
}

// unpoll takes a connection out of the polled ones. mu is held.
func (cs *connections) unpoll(c *conn) {
	delete(cs.idle.byFD, c.fd)
	cs.idle.set.Remove(c.fd)
}

// resume serves a polled connection again. mu is held.
func (cs *connections) resume(c *conn) {
	_ = c.Conn.SetReadDeadline(time.Time{}) // fails only if the connection is closed
	cs.serve(c)
}

// closePolled closes the polled connections that pick chooses. mu is held.
func (cs *connections) closePolled(pick func(*conn) bool) {
	for _, c := range cs.idle.byFD {
		if pick(c) {
			cs.unpoll(c)
			_ = c.Conn.Close() // no request is under way
			cs.ended()
		}
	}
}

// checkPolled closes the connections that are idle for too long. mu is held.
func (cs *connections) checkPolled(now int64) {
	if now-cs.idle.checked < int64(slowTick/tick) {
		return
	}
	cs.idle.checked = now
	cs.closePolled(func(c *conn) bool {
		return time.Duration(now-c.since.Load())*tick > cs.idleLimit(c)
	})
}

// idleLimit returns how long a connection may have no request. One that never had any needs no longer than a body that
// does not arrive.
func (cs *connections) idleLimit(c *conn) time.Duration {
	if c.heard.Load() {
		return cs.opt.IdleTimeout
	}
	return min(cs.opt.IdleTimeout, cs.opt.StallTimeout)
}

// rawConn gives access to the connection's descriptor, below TLS. connections.mu is held.
func (c *conn) rawConn() (syscall.RawConn, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	under := c.Conn
	if t, ok := under.(interface{ NetConn() net.Conn }); ok { // TLS
		under = t.NetConn()
	}
	sc, ok := under.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection has no descriptor")
	}
	raw, err := sc.SyscallConn()
	if err == nil {
		c.raw = raw
	}
	return raw, err
}
