package infer

import "sync"

// Reschedule asks for another execution of the request, which is one step of an iterative sequence. A backend calls it
// during Execute instead of giving the final response. It has no effect on a request that gets its final response.
func (r *Request) Reschedule() { r.rescheduled = true }

// Rescheduled reports whether Reschedule was called and the request has no final response. It clears the flag.
func (r *Request) Rescheduled() bool {
	again := r.rescheduled && !r.answered.Load()
	r.rescheduled = false
	return again
}

// Rescheduling reports whether Reschedule was called.
func (r *Request) Rescheduling() bool { return r.rescheduled }

// LeaveBatch removes a request that will be executed again from its batch.
func (r *Request) LeaveBatch() {
	if b := r.Batch; b != nil {
		r.Batch = nil
		b.release()
	}
}

// mark is the numbers of inputs, dimensions and buffers that a request had before the scheduler added to it.
type mark struct{ inputs, dims, owned int }

// Mark saves the size of r's inputs. The scheduler calls it before it adds inputs.
func (r *Request) Mark() { r.mark = mark{len(r.Inputs), len(r.dims), len(r.owned)} }

// Rewind removes what was added since Mark: inputs, their shapes, and buffers.
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

// Nulls makes the requests for empty slots of sequence batches. The zero value is ready. New must not be called
// concurrently, but any goroutine may release the requests.
type Nulls struct {
	pool  sync.Pool
	zeros []byte // never changed
}

// New returns a request to be executed with r. Its inputs have the names, types and shapes of the first n inputs of r,
// and only zeros. Nobody reads its response. The caller has the one reference.
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
