package infer

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

// Record notes what became of a request; see package requests. Requests that are not recorded have none.
type Record interface {
	// Finished is called with the final response, before the caller can read it. The tensors of both are there until it
	// returns.
	Finished(r *Request, resp *Response)
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
