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

// copyLimit is the largest tensor, in bytes, that is copied between the requests' memory and the instance's. A copy of
// that size costs less than a separate call to release ONNX Runtime's memory.
const copyLimit = 4096

// respond splits the outputs of the run among the requests and sends the responses.
func (x *instance) respond(requests []*infer.Request) error {
	for i := range x.m.outputs {
		if x.index[i] >= 0 {
			if err := x.checkOutput(i, requests); err != nil {
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
		if x.index[i] >= 0 && err == nil {
			err = x.addOutput(i, requests, responses)
		}
	}
	for k, r := range requests {
		resp := responses[k]
		responses[k] = nil
		if err != nil {
			resp.Release()
			continue
		}
		resp.Final = true
		err = r.Respond(resp)
	}
	return err
}

// checkOutput checks the type of an output, and that its shape can be split among the requests.
func (x *instance) checkOutput(i int, requests []*infer.Request) error {
	p, o := &x.m.outputs[i], x.runner.Output(x.index[i])
	if o.Type != p.code {
		return status.Errorf(status.Internal, "model '%s' gave output '%s' as %s, want %s", x.m.spec.ModelName, p.name,
			elementName(o.Type), p.dt)
	}
	switch {
	case p.split != nil:
		return x.checkSplit(p, o, requests)
	case x.m.batched:
		return batchio.CheckRows(x.m.spec.ModelName, p.name, o.Shape, int64(x.rows))
	}
	return nil
}

// checkSplit checks that an output of batch_output has as many elements as the requests' parts together.
func (x *instance) checkSplit(p *port, o capi.Output, requests []*infer.Request) error {
	have, err := tensor.Elements(o.Shape)
	if err != nil {
		return err
	}
	want := int64(0)
	for _, r := range requests {
		n, err := x.partShape(p, o, r)
		if err != nil {
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

// partShape stores the shape of a request's part of an output in x.shape and returns its number of elements.
func (x *instance) partShape(p *port, o capi.Output, r *infer.Request) (elements int64, err error) {
	if p.split != nil {
		x.shape, elements, err = p.split.Shape(x.shape[:0], r)
		return elements, err
	}
	x.shape = append(x.shape[:0], o.Shape...)
	switch {
	case x.m.batched:
		x.shape[0] = int64(r.BatchSize)
	case len(x.shape) == 0:
		x.shape = append(x.shape, p.dims...)
	}
	return tensor.Elements(x.shape)
}

// addOutput adds each request's part of output i to its response.
func (x *instance) addOutput(i int, requests []*infer.Request, responses []*infer.Response) error {
	p, o := &x.m.outputs[i], x.runner.Output(x.index[i])
	if p.dt == tensor.Bytes { // outputBuffer releases the value, and with it the shape
		x.outputDims = append(x.outputDims[:0], o.Shape...)
		o.Shape = x.outputDims
	}
	buf, err := x.outputBuffer(i, o)
	if err != nil {
		return err
	}
	defer buf.Release() // the responses have their own references
	data, address := buf.Bytes(), o.Address
	for k, r := range requests {
		elements, err := x.partShape(p, o, r)
		if err != nil {
			return err
		}
		size := int(elements) * p.dt.Size()
		switch {
		case len(requests) == 1 && x.fill == 0:
			size = o.Size
		case p.dt == tensor.Bytes:
			if size, err = tensor.SplitBytes(data, elements); err != nil {
				return err
			}
		}
		if address != 0 {
			x.addDevicePart(p, r, responses[k], tensor.Device{GPU: x.gpu.index, Address: address, Size: size}, buf)
			address += uintptr(size)
			continue
		}
		if err := x.addPart(p, r, responses[k], data[:size:size], buf, len(requests)); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// addPart adds data, of the shape x.shape, to a response, and to the request's sequence if the output is a state. A
// state that shares its memory with other requests is copied, so that it does not keep their memory.
func (x *instance) addPart(p *port, r *infer.Request, resp *infer.Response, data []byte, buf *tensor.Buffer,
	requests int) error {
	if p.isWanted(r) {
		resp.AddOutput(p.name, p.dt, x.shape, data, buf.Retain())
	}
	if !p.state || r.States == nil {
		return nil
	}
	if requests == 1 {
		return r.States.Set(p.name, p.dt, x.shape, data, buf.Retain())
	}
	own := x.m.pool.Get(len(data))
	copy(own.Bytes(), data)
	return r.States.Set(p.name, p.dt, x.shape, own.Bytes(), own)
}

// outputBuffer returns a buffer around the memory of an output. The caller has its only reference. The value of
// strings is released.
func (x *instance) outputBuffer(i int, o capi.Output) (*tensor.Buffer, error) {
	at := x.index[i]
	switch {
	case o.Address != 0:
		return x.deviceBuffer(i, o), nil
	case x.m.outputs[i].dt == tensor.Bytes:
		buf := x.m.pool.Get(o.Size)
		if err := x.runner.Strings(at, buf.Bytes()); err != nil {
			buf.Release()
			return nil, runtimeError(err)
		}
		x.runner.Keep(at).Release() // at once: objects of strings are large
		return buf, nil
	case o.Size <= copyLimit:
		buf := x.m.pool.Get(o.Size)
		copy(buf.Bytes(), o.Data)
		x.runner.Discard(at)
		return buf, nil
	case x.gpu != nil && x.gpu.outputs[i] != nil:
		return x.gpu.takeOutput(i), nil
	}
	return x.m.values.wrap(x.runner.Keep(at), o.Data), nil
}

// valueBuffers makes buffers around ONNX Runtime's memory and reuses them.
type valueBuffers struct{ pool sync.Pool }

type valueBuffer struct {
	buf   *tensor.Buffer
	value capi.Value
}

// wrap returns a buffer that releases v with its last reference.
func (p *valueBuffers) wrap(v capi.Value, data []byte) *tensor.Buffer {
	if b, ok := p.pool.Get().(*valueBuffer); ok {
		b.value = v
		b.buf.Renew(data)
		return b.buf
	}
	b := &valueBuffer{value: v}
	b.buf = tensor.NewBuffer(data, func(*tensor.Buffer) {
		b.value.Release()
		p.pool.Put(b)
	})
	return b.buf
}

// aligned reports whether data is aligned for elements of a size.
func aligned(data []byte, size int) bool {
	return size <= 1 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(size) == 0
}
