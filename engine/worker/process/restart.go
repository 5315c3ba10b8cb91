package process

import "time"

// Restarts decides when a process that has ended is started again. The first restart is at once. If that process ends
// too, the next one waits for shortestWait. Each further end doubles the wait, up to longestWait. After a process that
// has done work, or has lived for healthyAfter, the waits begin again.
//
// Only failed starts end the restarts. A request that crashes the process must not turn the model off for other
// clients, and neither must the kernel's out-of-memory killer.
//
// The zero value is ready to use; it is not safe for concurrent use.
type Restarts struct {
	failed int // failed starts in a row
	wait   time.Duration
}

// MaxFailedStarts is the number of failed starts in a row after which a process is not started again.
const MaxFailedStarts = 6

// Healthy notes how long the process that has just ended had lived, and whether it had done work.
func (r *Restarts) Healthy(lived time.Duration, worked bool) {
	if worked || lived > healthyAfter {
		*r = Restarts{}
	}
}

// Next returns how long to wait before the next start. started says whether the process that ended had been started; if
// not, it failed to start. Next returns false after MaxFailedStarts failed starts in a row.
func (r *Restarts) Next(started bool) (wait time.Duration, again bool) {
	if r.failed++; started {
		r.failed = 0
	}
	wait = r.wait
	r.wait = min(max(2*wait, shortestWait), longestWait)
	return wait, r.failed < MaxFailedStarts
}
