package infer

import "time"

// Stamp is a moment on the process's monotonic clock, in nanoseconds since an arbitrary start. 0 means "not yet".
type Stamp int64

// The origin lies an hour back so that no stamp is 0, also under a fake clock that starts at it.
var origin = time.Now().Add(-time.Hour)

// Now returns the present moment.
func Now() Stamp { return Stamp(time.Since(origin)) }

// Sub returns s-t, 0 if that is negative or either is unset.
func (s Stamp) Sub(t Stamp) time.Duration {
	if s == 0 || t == 0 || s < t {
		return 0
	}
	return time.Duration(s - t)
}

// Times are a request's moments in the server.
type Times struct {
	Arrived  Stamp // the request was whole and parsed
	Queued   Stamp // a scheduler took it
	Taken    Stamp // its execution began
	Input    Stamp // its batch's inputs are gathered, the computation begins
	Output   Stamp // the computation ended
	Finished Stamp // the final response was given
}

// StepTimes are the moments of one step of an ensemble's request.
type StepTimes struct {
	Model   string
	Version int64
	Times
}
