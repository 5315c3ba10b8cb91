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

// ActivityTrace is a Trace that also takes what backends tell of their own work.
type ActivityTrace interface {
	Trace
	Activity(name string, at Stamp)
}

// Activity notes in the request's trace that something happened in the backend, now; a request that is not traced is left
// alone. In traces for OpenTelemetry a name that ends in _START opens a span, inside the one that is open, and one that ends in
// _END closes the last one that is. Every name is also an event. Safe for concurrent use until the final response.
func (r *Request) Activity(name string) {
	if t, ok := r.Trace.(ActivityTrace); ok {
		t.Activity(name, Now())
	}
}

// Time returns the moment as wall clock time: that of the process's start plus what the monotonic clock has counted since.
func (s Stamp) Time() time.Time { return origin.Add(time.Duration(s)) }
