package process

import "time"

// Restarts decides when a process that has ended is started again. The first restart is at once. If that process ends
// too, the next one waits for secondWait, and each further end in a row doubles the wait, up to longestWait. A
// process that has done its work, or has lived for healthyAfter, begins a new row: a request that crashes its process
// each time must not take the model from other clients for ever longer. The zero value is ready to use; it is not
// safe for concurrent use.
type Restarts struct {
	ends int
	wait time.Duration
}

// MaxEnds is the number of ends in a row after which a process is not started again.
const MaxEnds = 6

// Healthy notes that the process that has just ended had lived for a time, and whether it had done its work.
func (r *Restarts) Healthy(lived time.Duration, worked bool) {
	if worked || lived > healthyAfter {
		*r = Restarts{}
	}
}

// Next returns how long to wait before the next start. It returns false after MaxEnds ends in a row.
func (r *Restarts) Next() (wait time.Duration, again bool) {
	r.ends++
	wait = r.wait
	r.wait = min(max(2*wait, secondWait), longestWait)
	return wait, r.ends < MaxEnds
}
