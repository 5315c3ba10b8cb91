package onnxruntime

import (
	"sync"
	"unsafe"

	"nereid/engine/backend/batchio"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// copyLimit is the size in bytes up to which an output is copied: that costs less than to let go of the runtime's
// memory by a call of its own when the answer is written.
const copyLimit = 4096

// answer hands the outputs of the run to the requests: to each its own rows.
func (x *instance) answer(requests []*infer.Request) error {
	for i := range x.m.outputs {
		if x.wanted[i] {
			if err := x.check(i, requests); err != nil {
				return err
			}
		}
	}
	responses := x.responses[:0]
	for _, r := range requests {
		responses = append(responses, r.NewResponse())
	}
	x.responses = responses
	var err error
	for i := range x.m.outputs {
		if x.wanted[i] && err == nil {
			err = x.hand(i, requests, responses)
		}
	}
	for k, r := range requests {
		if err != nil {
			responses[k].Release()
			responses[k] = nil
			continue
		}
		responses[k].Final = true
		if late := r.Respond(responses[k]); late != nil {
			err = late
		}
		responses[k] = nil
	}
	return err
}

// check makes sure that an output can be told apart into rows.
func (x *instance) check(i int, requests []*infer.Request) error {
	p, o := &x.m.outputs[i], x.runner.Output(x.places[i])
	if o.Type != p.code {
		return status.Errorf(status.Internal, "model '%s' gave output '%s' as %s, want %s", x.m.spec.ModelName, p.name,
			elementName(o.Type), p.dt)
	}
	if p.cut != nil {
		return x.checkCut(p, o, requests)
	}
	if !x.m.batched {
		return nil
	}
	return batchio.CheckRows(x.m.spec.ModelName, p.name, o.Shape, infer.Rows(requests))
}

// checkCut makes sure that an output has the elements that are to be dealt out.
func (x *instance) checkCut(p *port, o capi.Output, requests []*infer.Request) error {
	have, err := tensor.Elements(o.Shape)
	if err != nil {
		return err
	}
	want := int64(0)
	for _, r := range requests {
		var n int64
		if x.shape, n, err = p.cut.Shape(x.shape[:0], r); err != nil {
			return err
		}
		want += n
	}
	if have != want {
		return status.Errorf(status.Internal,
			"model '%s' gave output '%s' the shape %s; its batch_output deals out %d elements",
			x.m.spec.ModelName, p.name, tensor.FormatShape(o.Shape), want)
	}
	return nil
}

// handCut is hand for an output that is cut by the shape of an input.
func (x *instance) handCut(p *port, buf *tensor.Buffer, requests []*infer.Request, responses []*infer.Response) (
	err error) {
	data := buf.Bytes()
	for k, r := range requests {
		var n int64
		if x.shape, n, err = p.cut.Shape(x.shape[:0], r); err != nil {
			return err
		}
		size := int(n) * p.dt.Size()
		if p.dt == tensor.Bytes {
			if size, err = tensor.SplitBytes(data, n); err != nil {
				return err
			}
		}
		if err := x.give(p, r, responses[k], data[:size:size], buf, len(requests)); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// give hands a request its part of an output, of the shape x.shape: to its answer, and to its sequence if it is a
// state. A state that is part of several requests' memory is copied, so that it does not keep theirs.
func (x *instance) give(p *port, r *infer.Request, resp *infer.Response, data []byte, buf *tensor.Buffer,
	requests int) error {
	if p.isWanted(r) {
		resp.AddOutput(p.name, p.dt, x.shape, data, buf.Retain())
	}
	if !p.state || r.States == nil {
		return nil
	}
	own := buf
	if requests > 1 {
		own = x.m.pool.Get(len(data))
		copy(own.Bytes(), data)
		data = own.Bytes()
	} else {
		own.Retain()
	}
	return r.States.Set(p.name, p.dt, x.shape, data, own)
}

// hand adds output i to the responses of those who want it.
func (x *instance) hand(i int, requests []*infer.Request, responses []*infer.Response) error {
	p, o := &x.m.outputs[i], x.runner.Output(x.places[i])
	x.shape = append(x.shape[:0], o.Shape...)
	if o.Address != 0 {
		x.handOnCard(i, o, requests, responses)
		return nil
	}
	buf, err := x.take(i, o)
	if err != nil {
		return err
	}
	defer buf.Release() // the responses have references of their own
	if p.cut != nil {
		return x.handCut(p, buf, requests, responses)
	}
	data := buf.Bytes()
	if !x.m.batched {
		shape := x.shape
		if len(shape) == 0 && len(p.dims) > 0 {
			shape = p.dims
		}
		x.shape = append(x.shape[:0], shape...)
		return x.give(p, requests[0], responses[0], data, buf, 1)
	}
	rows, elements := x.shape[0], int64(1)
	for _, d := range x.shape[1:] {
		elements *= d
	}
	for k := range requests {
		k := rowsOf(k, len(requests))
		r := requests[k]
		n := int64(r.BatchSize)
		size := len(data)
		if len(requests) > 1 {
			if p.dt == tensor.Bytes {
				if size, err = tensor.SplitBytes(data, n*elements); err != nil {
					return err
				}
			} else if rows > 0 {
				size = int(n) * int(elements) * p.dt.Size()
			}
		}
		x.shape[0] = n
		if err := x.give(p, r, responses[k], data[:size:size], buf, len(requests)); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// take wraps an output's memory. The caller has the one reference.
func (x *instance) take(i int, o capi.Output) (*tensor.Buffer, error) {
	place := x.places[i]
	switch {
	case x.m.outputs[i].dt == tensor.Bytes:
		buf := x.m.pool.Get(o.Size)
		if err := x.runner.Strings(place, buf.Bytes()); err != nil {
			buf.Release()
			return nil, runtimeError(err)
		}
		x.runner.Discard(place)
		return buf, nil
	case o.Size <= copyLimit:
		buf := x.m.pool.Get(o.Size)
		copy(buf.Bytes(), o.Data)
		x.runner.Discard(place)
		return buf, nil
	case x.card != nil && x.card.outputs[i] != nil:
		return x.card.take(i), nil
	}
	buf := x.m.kept.wrap(x.runner.Keep(place), o.Data)
	if !keepOutputs {
		defer buf.Release()
	}
	return buf, nil
}

// keptPool makes buffers around ONNX Runtime's memory without allocating one for each.
type keptPool struct{ pool sync.Pool }

type kept struct {
	buf   *tensor.Buffer
	value capi.Value
}

// wrap returns a buffer that releases the value with its last reference.
func (p *keptPool) wrap(v capi.Value, data []byte) *tensor.Buffer {
	if k, ok := p.pool.Get().(*kept); ok {
		k.value = v
		k.buf.Renew(data)
		return k.buf
	}
	k := &kept{value: v}
	k.buf = tensor.NewBuffer(data, func(*tensor.Buffer) {
		k.value.Release()
		p.pool.Put(k)
	})
	return k.buf
}

// aligned reports whether elements of a size may be read at the data's address.
func aligned(data []byte, size int) bool {
	return size <= 1 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(size) == 0
}
