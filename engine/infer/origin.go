package infer

// Origin is the execution for whose sake a model made a request.
type Origin struct {
	Model string
	Up    *Origin // of the request that is executed; nil: a client made that one
	// Busy reports whether that execution still has its instance. Safe for concurrent use.
	Busy func() bool
	// Loose says that the execution is not known to wait for what is made for its sake. Busy is not asked then.
	Loose bool
}

// Depth returns how many executions lie between a request and the client.
func (o *Origin) Depth() (n int) {
	for ; o != nil; o = o.Up {
		n++
	}
	return n
}

// Holds returns how many instances of a model are known to wait for a request that was made for the sake of o.
func (o *Origin) Holds(model string) (n int) {
	for ; o != nil && !o.Loose; o = o.Up {
		if o.Model == model && o.Busy() {
			n++
		}
	}
	return n
}
