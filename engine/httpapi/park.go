package httpapi

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// Parked connections. A connection without a request costs a goroutine, its stack, the library's read buffer and an
// exchange. After parkAfter the watcher ends its read: the library takes that for the end of the connection and
// gives all of it back, but the connection stays open, in an epoll set, until the client sends something. Then it is
// served anew. Nothing of this is on the path of a request.
//
// A connection goes idle → parking (the watcher) → parked (its goroutine), or back to heading if a request came
// meanwhile. From parked it goes back to idle, or it is closed. parked and conns share Server.mu.

// defaultParkAfter is how long a connection is idle before it is parked: longer than the pause between two requests of
// a busy client, shorter than anybody who opens thousands of connections would notice.
const defaultParkAfter = 2 * time.Second

// lot is where the parked connections are. Server.mu guards it.
type lot struct {
	byFD   map[int]*conn
	set    *pollSet // nil before the first connection is parked
	broken bool     // this system has no poll set, or no room in it: nothing is parked any more
	looked int64    // the watcher's tick at which idle times were last checked
	// fresh counts the connections that were parked since memory was last given back to the system, at gave; seen is
	// what it was when the watcher last looked, and calm since when it has not changed.
	fresh, seen int
	calm, gave  time.Time
}

// run serves a connection until it ends or is parked.
func (s *Server) run(c *conn) {
	var err error
	if s.handshake(c) {
		c.attach()
		err = s.transport.ServeConn(c)
		c.detach()
	}
	if phase(c.phase.Load()) == parked && s.park(c) {
		return
	}
	if err != nil {
		s.opt.Log.Debug("HTTP connection ended", "remote", c.RemoteAddr(), "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.gone()
}

// gone counts a connection out. s.mu is held.
func (s *Server) gone() {
	s.open.Add(-1)
	s.drainedLocked()
}

// park moves a connection to the set of parked ones. If it returns false, the connection is closed.
func (s *Server) park(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		_ = c.Conn.Close() // nothing is lost: no request was under way
		return false
	}
	fd, err := s.watchFD(c)
	if err != nil {
		s.lot.broken = true
		s.opt.Log.Warn("cannot park idle HTTP connections; each keeps its memory", "err", err)
		s.revive(c)
		return true
	}
	c.fd = fd
	delete(s.conns, c)
	s.lot.byFD[fd] = c
	s.lot.fresh++
	return true
}

// watchFD lets the poll set tell when there is something to read on c. s.mu is held.
func (s *Server) watchFD(c *conn) (fd int, err error) {
	p := &s.lot
	if p.set == nil {
		if p.set, err = newPollSet(); err != nil {
			return 0, err
		}
		p.byFD = map[int]*conn{}
		set := p.set
		s.running.Go(func() { s.attend(set) })
	}
	raw, err := c.rawConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(n uintptr) { fd = int(n); err = p.set.add(fd) }); cerr != nil {
		err = cerr
	}
	return fd, err
}

// attend serves the parked connections that have something to read, until the set is closed.
func (s *Server) attend(set *pollSet) {
	for {
		ready, err := set.wait()
		if err != nil {
			return // closed
		}
		s.wake()
		s.mu.Lock()
		for _, fd := range ready {
			if c := s.lot.byFD[fd]; c != nil {
				s.unpark(c)
				s.revive(c)
			}
		}
		s.mu.Unlock()
	}
}

// unpark takes a connection out of the set. s.mu is held.
func (s *Server) unpark(c *conn) {
	delete(s.lot.byFD, c.fd)
	s.lot.set.remove(c.fd)
	s.conns[c] = struct{}{}
}

// revive serves a parked connection again. s.mu is held.
func (s *Server) revive(c *conn) {
	_ = c.Conn.SetReadDeadline(time.Time{}) // fails only if the connection is closed
	c.since.Store(s.tick.Load())
	c.phase.Store(int32(idle))
	s.running.Go(func() { s.run(c) })
}

// closeParked closes the parked connections that pick chooses. s.mu is held.
func (s *Server) closeParked(pick func(*conn) bool) {
	for _, c := range s.lot.byFD {
		if pick(c) {
			s.unpark(c)
			delete(s.conns, c)
			_ = c.Conn.Close() // no request is under way
			s.gone()
		}
	}
}

// parkingTick is how often the idle times of parked connections are checked, in ticks.
const parkingTick = int64(time.Second / tickTime)

// lookParked closes the connections that are parked for too long. s.mu is held.
func (s *Server) lookParked(now int64) {
	if len(s.lot.byFD) == 0 || now-s.lot.looked < parkingTick {
		return
	}
	s.lot.looked = now
	s.closeParked(func(c *conn) bool {
		return time.Duration(now-c.since.Load())*tickTime > s.opt.IdleTimeout
	})
}

const (
	// manyParked connections are worth giving memory back for, once in giveBackTime at most, when no more have been
	// parked for calmTime.
	manyParked   = 256
	calmTime     = time.Second
	giveBackTime = 10 * time.Second
)

// wantsMemoryBack reports whether many connections were parked and no more are coming, so that what they used should go
// back to the system. The watcher asks when the server is quiet.
func (s *Server) wantsMemoryBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, now := &s.lot, time.Now()
	if p.fresh != p.seen {
		p.seen, p.calm = p.fresh, now
	}
	if p.fresh < manyParked || now.Sub(p.calm) < calmTime || now.Sub(p.gave) < giveBackTime {
		return false
	}
	p.fresh, p.seen, p.gave = 0, 0, now
	return true
}

// rawConn gives access to the connection's descriptor, below TLS. s.mu is held.
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
