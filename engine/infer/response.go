package infer

import (
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Response is one response to a request: outputs or an error. Each output holds one reference on its buffer.
type Response struct {
	Outputs []tensor.Tensor
	// States are the next implicit states of the request's sequence, from an execution in another process: in that
	// process they are on their way to the server. Each holds one reference on its buffer.
	States     []tensor.Tensor
	Parameters []Parameter
	// Err, if not nil, is returned to the caller instead of outputs.
	Err error
	// Final marks the last response of the request.
	Final bool
	// Empty says that this only ends the request: the client gets no response of it. It is Final, and has neither
	// outputs nor an error. Decoupled models may end with it.
	Empty bool
	// Report, if not nil, is what the backend says of the request. It is in the final response.
	Report *Report
	// Again marks the last response of one step of an iterative sequence, in the process of a model: the server
	// executes the request again. It is Final in the process, and has States only.
	Again bool

	shapes []int64 // storage for the outputs' shapes
}

// AddOutput appends an output and takes over the caller's reference on buf. If buf is nil, the garbage collector owns
// data. The shape is copied.
func (p *Response) AddOutput(name string, dt tensor.DataType, shape []int64, data []byte, buf *tensor.Buffer) {
	at := len(p.shapes)
	p.shapes = append(p.shapes, shape...)
	p.Outputs = append(p.Outputs, tensor.Tensor{
		Name: name, DataType: dt, Shape: p.shapes[at:len(p.shapes):len(p.shapes)], Data: data, Buf: buf,
	})
}

// Output returns the output with a name, nil if there is none.
func (p *Response) Output(name string) *tensor.Tensor {
	for i := range p.Outputs {
		if p.Outputs[i].Name == name {
			return &p.Outputs[i]
		}
	}
	return nil
}

// Release drops the references on the outputs and states. The reader of a response calls it when it has encoded them.
// The response must not be used after that.
func (p *Response) Release() {
	for i := range p.Outputs {
		p.Outputs[i].Release()
	}
	for i := range p.States {
		p.States[i].Release()
	}
	p.Outputs, p.States = p.Outputs[:0], p.States[:0]
}

func (p *Response) reset() {
	clear(p.Outputs)
	clear(p.Parameters)
	p.Outputs, p.States, p.Parameters, p.shapes = p.Outputs[:0], nil, p.Parameters[:0], p.shapes[:0]
	p.Err, p.Report, p.Final, p.Empty, p.Again = nil, nil, false, false, false
}

func (p *Response) size() int {
	n := responseCost
	for i := range p.Outputs {
		n += len(p.Outputs[i].Data)
	}
	return n
}

// NewResponse returns an empty response for r. The first one of a request does not allocate.
func (r *Request) NewResponse() *Response {
	if r.used.CompareAndSwap(false, true) {
		return &r.first
	}
	return &Response{}
}

// Respond gives the caller a response; resp.Final says whether it is the last one. It may be called from any goroutine
// that holds a reference on r, and runs no code of the caller. It blocks only for a decoupled model, while the unread
// responses exceed streamLimit and the request is not cancelled. After slowReaderTimeout it is cancelled, and its final
// response is an error; if it is patient, the limit doubles instead, or stays if it is bounded. A response after
// the final one is dropped, and Respond returns Internal.
func (r *Request) Respond(resp *Response) error {
	if resp.Final {
		if !r.answered.CompareAndSwap(false, true) {
			resp.Release()
			return status.New(status.Internal, "response after the final one")
		}
	} else if r.answered.Load() {
		resp.Release()
		return status.New(status.Internal, "response after the final one")
	} else if r.Trace != nil {
		r.Trace.Responded(r, resp)
	}
	if o := r.ordered.order; o != nil {
		o.deliver(r, resp)
		return nil
	}
	r.deliver(resp)
	return nil
}

// deliver adds a response to the stream and notifies the observer.
func (r *Request) deliver(resp *Response) {
	if resp.Final {
		if resp.Err == nil && r.stream.unread.Load() {
			resp.Release()
			resp.Empty = false
			resp.Err = status.New(status.Unavailable, "the request was cancelled, and responses may be missing: its "+
				"client did not read them in time")
		}
		r.finish(resp)
	} else {
		if o, ok := r.observer.(StreamObserver); ok {
			o.Streamed(r, resp)
		}
		if r.Record != nil {
			r.Record.Responded(r, resp)
		}
	}
	r.stream.put(resp, r)
}

// finish takes the times over from the batch and notifies the observer.
func (r *Request) finish(resp *Response) {
	now := Now()
	r.Times.Finished, r.Failed = now, resp.Err
	b := r.Batch
	if b != nil {
		r.Times.Taken, r.Times.Input, r.Times.Output = b.Started, b.Input, b.Output
		if r.Times.Input == 0 { // the backend does not mark its phases
			r.Times.Input = b.Started
		}
		if r.Times.Output == 0 {
			r.Times.Output = now
		}
		if resp.Report != nil {
			r.Times.report(resp.Report)
		}
		if r.Record != nil {
			r.Ran = Ran{Instance: b.Instance, Rows: b.Rows, Requests: len(b.Requests) - b.Nulls, Before: b.Before}
		}
	}
	if r.observer != nil {
		r.observer.Finished(r, resp)
	}
	if r.Trace != nil {
		r.Trace.Responded(r, resp)
	}
	if r.Record != nil {
		r.Record.Responded(r, resp)
	}
	if b != nil {
		r.Batch = nil // it may be reused before the request is
		b.release()
	}
}

// Fail responds with an error as the final response. It does nothing if the request already has its final response.
func (r *Request) Fail(err error) {
	if r.answered.Load() {
		return
	}
	resp := r.NewResponse()
	resp.Err, resp.Final = err, true
	_ = r.Respond(resp) // an error: another final response was faster
}

// Answered reports whether the final response has been given.
func (r *Request) Answered() bool { return r.answered.Load() }
