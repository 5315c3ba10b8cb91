package infer

import "time"

// Trace follows one sampled request through the server; see package trace. A request that is not sampled, as nearly all
// are, has none. Its methods are safe for concurrent use, must not block and keep nothing of the request's memory.
type Trace interface {
	// Admitted is called once, when a model version has checked the request and before it can be answered.
	Admitted(r *Request)
	// Responded hears of every response before the caller can read it: with resp.Final of the last one, when r.Times is
	// complete.
	Responded(r *Request, resp *Response)
	// Child returns the trace of a request that this one's execution makes, as the steps of an ensemble are.
	Child() Trace
}

// Time returns the moment as wall clock time: that of the process's start plus what the monotonic clock has counted since.
func (s Stamp) Time() time.Time { return origin.Add(time.Duration(s)) }
