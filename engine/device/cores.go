package device

import (
	"sync/atomic"
	"time"
)

const (
	// coresEvery is how long an answer of Cores.Busy holds.
	coresEvery = 50 * time.Millisecond
	// spareCore is how much of one core must be idle for work to find a core at once.
	spareCore = 0.5
)

// Cores says whether the cores that this process may use have time to spare. The zero value is not ready: see NewCores.
type Cores struct {
	read  func() (idle time.Duration, ok bool) // of all cores together, since some moment
	since time.Time
	next  atomic.Int64 // nanoseconds after since
	busy  atomic.Bool
	last  struct { // of the goroutine that moved next on
		at, idle time.Duration
		ok       bool
	}
	turn atomic.Bool // somebody reads
}

// NewCores watches the cores of this machine. read is for tests; nil: what the system counts.
func NewCores(read func() (idle time.Duration, ok bool)) *Cores {
	if read == nil {
		read = idleTime
	}
	c := &Cores{read: read, since: time.Now()}
	c.busy.Store(true)
	return c
}

// Busy reports whether less than half a core was idle of late. It looks at most every 50 ms, by itself, and costs some
// nanoseconds between. Where the system does not tell, and until it has looked twice, the cores count as busy. Safe for
// concurrent use.
func (c *Cores) Busy() bool {
	now := time.Since(c.since)
	if int64(now) < c.next.Load() || !c.turn.CompareAndSwap(false, true) {
		return c.busy.Load()
	}
	defer c.turn.Store(false)
	c.next.Store(int64(now + coresEvery))
	idle, ok := c.read()
	if ok && c.last.ok && now-c.last.at < 20*coresEvery { // else it is old: what was then says little of now
		c.busy.Store(float64(idle-c.last.idle) < spareCore*float64(now-c.last.at))
	}
	c.last.at, c.last.idle, c.last.ok = now, idle, ok
	return c.busy.Load()
}
