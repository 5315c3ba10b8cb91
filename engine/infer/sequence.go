package infer

import "sync"

// Reschedule says that the request is to be executed again: its sequence is iterative, and this execution was one step of
// it. A backend calls it during Execute for a request that gets no final response in it. One that has its final response
// all the same is done.
func (r *Request) Reschedule() { r.again = true }

// Rescheduled reports whether Reschedule was called for a request that is not done, and forgets it.
func (r *Request) Rescheduled() bool {
	again := r.again && !r.answered.Load()
	r.again = false
	return again
}

// LeaveBatch unties a request that is to be executed again from the batch that it ran in.
func (r *Request) LeaveBatch() {
	if b := r.Batch; b != nil {
		r.Batch = nil
		b.letGo()
	}
}

// mark is what a request had before the scheduler added to it.
type mark struct{ inputs, dims, owned int }

// Mark notes what r has now. The scheduler calls it before it adds inputs.
func (r *Request) Mark() { r.mark = mark{len(r.Inputs), len(r.dims), len(r.owned)} }

// Rewind takes away what was added since Mark: inputs, shapes, and buffers that r owns.
func (r *Request) Rewind() {
	clear(r.Inputs[r.mark.inputs:])
	r.Inputs, r.dims = r.Inputs[:r.mark.inputs], r.dims[:r.mark.dims]
	for _, b := range r.owned[r.mark.owned:] {
		b.Release()
	}
	clear(r.owned[r.mark.owned:])
	r.owned = r.owned[:r.mark.owned]
	r.States = nil
}

// Nulls makes the requests for empty slots of batches. The zero value is ready. It is for one goroutine at a time; what it
// made may be released anywhere.
type Nulls struct {
	pool  sync.Pool
	zeros []byte // nobody changes it
}

// New returns a request to stand beside r: its inputs have the names, types and shapes of the first n of r's, and zeros for
// values. Nobody reads its answer. The caller has the one reference.
func (p *Nulls) New(r *Request, n int) *Request {
	null, ok := p.pool.Get().(*Request)
	if !ok {
		null = newRequest()
		null.pool = &p.pool
	}
	null.refs.Store(1)
	null.Null = true
	null.ModelName, null.Version, null.Served, null.BatchSize = r.ModelName, r.Version, r.Served, 1
	for i := range r.Inputs[:n] {
		in := r.Inputs[i]
		shape := null.Dims(len(in.Shape))
		copy(shape, in.Shape)
		size := len(in.Data)
		if in.DataType.Size() == 0 { // BYTES: an empty string is its length, 0
			size = 4
			for _, d := range shape {
				size *= int(d)
			}
		}
		if size > len(p.zeros) {
			p.zeros = make([]byte, size)
		}
		in.Shape, in.Data, in.Buf = shape, p.zeros[:size:size], nil
		null.Inputs = append(null.Inputs, in)
	}
	return null
}
