package infer

// Origin is the execution in which a model made a request.
type Origin struct {
	Model  string  // the model that is executed
	Parent *Origin // of the request that is executed; nil: a client made that one
	// Busy reports whether that execution still occupies its instance. Safe for concurrent use.
	Busy func() bool
	// Async says that the execution may not wait for the requests that it makes. Busy is not called then.
	Async bool
}

// Depth returns the number of executions between a request and the client.
func (o *Origin) Depth() (n int) {
	for ; o != nil; o = o.Parent {
		n++
	}
	return n
}

// Holds returns how many instances of a model are known to wait for a request with this origin.
func (o *Origin) Holds(model string) (n int) {
	for ; o != nil && !o.Async; o = o.Parent {
		if o.Model == model && o.Busy() {
			n++
		}
	}
	return n
}
