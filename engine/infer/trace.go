package infer

import "cmp"

// The names of a request's time stamps are Triton's.
const (
	RequestStart       = "REQUEST_START"
	CacheLookupStart   = "CACHE_HIT_LOOKUP_START"
	CacheLookupEnd     = "CACHE_HIT_LOOKUP_END"
	QueueStart         = "QUEUE_START"
	ComputeStart       = "COMPUTE_START"
	ComputeInputEnd    = "COMPUTE_INPUT_END"
	ComputeOutputStart = "COMPUTE_OUTPUT_START"
	ComputeEnd         = "COMPUTE_END"
	ResponseComplete   = "INFER_RESPONSE_COMPLETE"
	RequestEnd         = "REQUEST_END"
)

// The names of what happens with tensors are Triton's.
const (
	TensorQueueInput    = "TENSOR_QUEUE_INPUT"
	TensorBackendInput  = "TENSOR_BACKEND_INPUT"
	TensorBackendOutput = "TENSOR_BACKEND_OUTPUT"
)

// Trace follows one sampled request through the server; see package trace. Requests that are not sampled have none. Its
// methods are safe for concurrent use, do not block and keep no memory of the request.
type Trace interface {
	// Admitted is called once, after a model version has checked the request and before it can be answered.
	Admitted(r *Request)
	// Responded is called with every response before the caller can read it. When it is called with the final response,
	// r.Times is complete.
	Responded(r *Request, resp *Response)
	// Child returns the trace of a request that this request's execution makes, such as a step of an ensemble.
	Child() Trace
}

// Executed reports whether a backend has executed the request or executes it. It is called until the final response is
// given. An ensemble's request is not executed: its steps are.
func (r *Request) Executed() bool { return r.Batch != nil && len(r.Steps) == 0 }

// Timeline calls add for the time stamps of a request that has got its final response, in their order. Stamps of what
// did not happen are left out.
func (r *Request) Timeline(add func(name string, at Stamp)) {
	t := &r.Times
	end := cmp.Or(t.Finished, Now()) // a scheduler's refusal has no stamp
	some := func(name string, at Stamp) {
		if at != 0 {
			add(name, at)
		}
	}
	some(RequestStart, t.Arrived)
	if r.Cache.Hit {
		some(CacheLookupStart, r.Cache.Start)
		some(CacheLookupEnd, r.Cache.End)
	}
	some(QueueStart, t.Queued)
	if r.Executed() {
		some(ComputeStart, t.Taken)
		some(ComputeInputEnd, t.Input)
		some(ComputeOutputStart, t.Output)
		add(ComputeEnd, end)
	}
	add(ResponseComplete, end)
	add(RequestEnd, end)
}

// Record notes what became of a request; see package requests. Requests that are not recorded have none.
type Record interface {
	// Responded is called with each response, before the caller can read it. The tensors of both are there until it
	// returns. Safe for concurrent use.
	Responded(r *Request, resp *Response)
	// Released is called once, when nothing uses the request any more, before its memory is reused.
	Released(r *Request)
	// Child returns the record of a request that this request's execution makes. kind is "ensemble" or "bls". Safe
	// for concurrent use until Released.
	Child(kind string) Record
}

// ActivityTrace is a Trace that also records activities of backends.
type ActivityTrace interface {
	Trace
	Activity(name string, at Stamp)
}

// NumberedTrace is a Trace that has a number.
type NumberedTrace interface {
	Trace
	ID() uint64
}

// PropagatedTrace is a Trace that models pass on to other services.
type PropagatedTrace interface {
	Trace
	// Propagate returns what an OpenTelemetry propagator extracts, a JSON object with "traceparent" and, if there is
	// one, "tracestate". "": the trace has no spans.
	Propagate() string
}

// Activity records in the request's trace, if it has one, that something happens in the backend now. In OpenTelemetry
// traces, a name that ends in _START opens a span inside the one that is open. A name that ends in _END closes the last
// open span. Every name is also an event. Safe for concurrent use until the final response.
func (r *Request) Activity(name string) {
	if t, ok := r.Trace.(ActivityTrace); ok {
		t.Activity(name, Now())
	}
}
