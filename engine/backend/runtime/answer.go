package runtime

import (
	"nereid/engine/backend/batchio"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// copyLimit is the size in bytes up to which an output is copied: that costs less than keeping it.
const copyLimit = 4096

// answer sends each request its rows of the outputs.
func (x *instance) answer(requests []*infer.Request) error {
	responses := x.responses[:0]
	for _, r := range requests {
		responses = append(responses, r.NewResponse())
	}
	x.responses = responses
	var err error
	for k := range x.want {
		if err == nil {
			err = x.hand(k, requests, responses)
		}
	}
	for k, r := range requests {
		if err != nil {
			responses[k].Release()
		} else {
			responses[k].Final = true
			if late := r.Respond(responses[k]); late != nil {
				x.spec.Log.Debug("an answer was not taken", "err", late)
			}
		}
		responses[k] = nil
	}
	return err
}

// hand adds output k of the run to the responses of the requests that want it.
func (x *instance) hand(k int, requests []*infer.Request, responses []*infer.Response) error {
	p := &x.out[x.want[k]]
	dt, shape, data, size, err := x.runner.Output(k)
	if err != nil {
		return status.Errorf(status.CodeOf(err), "output '%s' of model '%s': %w", p.name, x.spec.ModelName, err)
	}
	if dt != p.dt {
		return status.Errorf(status.Internal, "model '%s' gave output '%s' as %s, want %s", x.spec.ModelName, p.name,
			dt, p.dt)
	}
	x.shape = append(x.shape[:0], shape...)
	if p.cut == nil && x.batched {
		rows := int64(x.pad)
		if rows == 0 {
			rows = infer.Rows(requests)
		}
		if err := batchio.CheckRows(x.spec.ModelName, p.name, shape, rows); err != nil {
			return err
		}
	}
	buf := x.take(k, dt, data, size)
	defer buf.Release() // the responses have their references
	if p.cut == nil && !x.batched {
		if len(x.shape) == 0 {
			x.shape = append(x.shape, p.dims...)
		}
		if requests[0].Wants(p.name) {
			responses[0].AddOutput(p.name, dt, x.shape, buf.Bytes(), buf.Retain())
		}
		return nil
	}
	return x.split(p, dt, buf, requests, responses)
}

// split adds an output, whose shape is x.shape, to the responses: to each the rows of its request.
func (x *instance) split(p *port, dt tensor.DataType, buf *tensor.Buffer, requests []*infer.Request,
	responses []*infer.Response) (err error) {
	data := buf.Bytes()
	elements := int64(1)
	for _, d := range x.shape[min(1, len(x.shape)):] {
		elements *= d
	}
	for i, r := range requests {
		n := int64(r.BatchSize) * elements
		if p.cut != nil {
			if x.shape, n, err = p.cut.Shape(x.shape[:0], r); err != nil {
				return err
			}
		} else {
			x.shape[0] = int64(r.BatchSize)
		}
		mine := int(n) * dt.Size()
		if dt == tensor.Bytes {
			if mine, err = tensor.SplitBytes(data, n); err != nil {
				return err
			}
		}
		if mine > len(data) {
			return status.Errorf(status.Internal,
				"model '%s' gave output '%s' fewer elements than its batch_output deals out", x.spec.ModelName, p.name)
		}
		if r.Wants(p.name) {
			responses[i].AddOutput(p.name, dt, x.shape, data[:mine:mine], buf.Retain())
		}
		data = data[mine:]
	}
	if p.cut != nil && len(data) > 0 {
		return status.Errorf(status.Internal,
			"model '%s' gave output '%s' more elements than its batch_output deals out", x.spec.ModelName, p.name)
	}
	return nil
}

// take returns the bytes of output k. The caller owns the buffer's one reference.
func (x *instance) take(k int, dt tensor.DataType, data []byte, size int) *tensor.Buffer {
	if dt == tensor.Bytes {
		buf := x.pool.Get(size)
		x.runner.Strings(k, buf.Bytes())
		return buf
	}
	if size <= copyLimit || x.overwrites && !x.wholeBatch {
		buf := x.pool.Get(len(data))
		copy(buf.Bytes(), data)
		return buf
	}
	free := x.runner.Keep(k)
	return tensor.NewBuffer(data, func(*tensor.Buffer) { free() })
}
