package device

import (
	"sync/atomic"
	"time"

	"nereid/engine/system/proc"
)

// minIdle is the share of one core that must be idle for the cores not to be busy.
const minIdle = 0.5

// Cores reports whether the cores that this process may use are busy. NewCores makes one.
type Cores struct {
	read  func() (idle time.Duration, ok bool) // of all cores together, since some time
	since time.Time
	next  atomic.Int64 // nanoseconds after since, when the answer is no longer valid
	busy  atomic.Bool
	last  struct { // only the goroutine that has reading uses it
		at, idle time.Duration
		ok       bool
	}
	reading atomic.Bool // a goroutine reads
}

// NewCores observes the cores of this machine. read is for tests; nil: the system's counters.
func NewCores(read func() (idle time.Duration, ok bool)) *Cores {
	if read == nil {
		read = func() (time.Duration, bool) {
			busy, total, err := proc.CPUTimes(proc.Root)
			return total - busy, err == nil
		}
	}
	c := &Cores{read: read, since: time.Now()}
	c.busy.Store(true)
	return c
}

// Busy reports whether less than half a core was idle recently. It reads the system's counters at most every 50 ms;
// in between it takes some nanoseconds. Until the counters have been read twice, and on systems without them, the
// cores are busy. Busy is safe for concurrent use.
func (c *Cores) Busy() bool {
	now := time.Since(c.since)
	if int64(now) < c.next.Load() || !c.reading.CompareAndSwap(false, true) {
		return c.busy.Load()
	}
	defer c.reading.Store(false)
	c.next.Store(int64(now + busyInterval))
	idle, ok := c.read()
	if ok && c.last.ok && now-c.last.at < 20*busyInterval { // older counters say nothing about the present
		c.busy.Store(float64(idle-c.last.idle) < minIdle*float64(now-c.last.at))
	}
	c.last.at, c.last.idle, c.last.ok = now, idle, ok
	return c.busy.Load()
}
