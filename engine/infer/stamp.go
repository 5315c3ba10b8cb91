package infer

import (
	"sync/atomic"
	"time"
)

// Stamp is a moment on the process's monotonic clock, in nanoseconds since an arbitrary start. 0 means "not yet".
type Stamp int64

// clockStart is an hour before the start of the process. So no stamp is 0, even with a fake clock.
var clockStart = time.Now().Add(-time.Hour)

// wallStart is clockStart by the wall clock.
var wallStart = clockStart.Round(0)

// Now returns the current moment.
func Now() Stamp { return Stamp(time.Since(clockStart)) }

// Sub returns s-t, 0 if that is negative or either is unset.
func (s Stamp) Sub(t Stamp) time.Duration {
	if s == 0 || t == 0 || s < t {
		return 0
	}
	return time.Duration(s - t)
}

// clockSet is by how many nanoseconds the wall clock was set since clockStart, as Time has noticed last.
var clockSet atomic.Int64

// Time returns the moment as wall clock time. If the clock was set by more than a second since then, it is the time by
// the new clock: a machine without a clock starts with any date. The times of stamps differ as the stamps do.
func (s Stamp) Time() time.Time {
	now := time.Now()
	set := time.Duration(clockSet.Load())
	if by := now.Round(0).Sub(wallStart) - now.Sub(clockStart); (by - set).Abs() > time.Second {
		clockSet.Store(int64(by))
	}
	return s.TimeAsKnown()
}

// TimeAsKnown is Time without a look at the clock, which costs as much as Now. It does not notice that the clock was
// set.
func (s Stamp) TimeAsKnown() time.Time {
	return wallStart.Add(time.Duration(s) + time.Duration(clockSet.Load()))
}

// Times are the moments of a request's life in the server.
type Times struct {
	Arrived  Stamp // the request was complete and parsed
	Queued   Stamp // a scheduler queued it
	Taken    Stamp // its execution began
	Input    Stamp // its batch's inputs are gathered, the computation begins
	Output   Stamp // the computation ended
	Closed   Stamp // the outputs were handed out; 0: not known before Finished
	Finished Stamp // the final response was given
}

// StepTimes are the times of one step of an ensemble's request.
type StepTimes struct {
	Model   string
	Version int64
	Times
}

// CacheKey identifies a request in the response cache; see package cache. The zero value: none.
type CacheKey [2]uint64

// CacheLookup is the lookup of a request in the response cache.
type CacheLookup struct {
	Key        CacheKey
	Start, End Stamp // of the lookup; 0: there was none
	Hit        bool
}
