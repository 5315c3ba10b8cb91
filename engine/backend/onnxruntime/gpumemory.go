package onnxruntime

import (
	"cmp"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/gpumem"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// card is what an instance on a GPU has of that GPU's memory and of pinned memory. It is used by the goroutine in
// Execute.
//
// Inputs that all lie on the GPU stay there: that of one request where it is, those of several copied together within
// the GPU. Outputs whose place all who want them have on the GPU stay there too: that of one request, of a size known
// before, is written to its place, others are left in ONNX Runtime's memory for who reads the response to copy.
// Everything else goes by way of the host, through pinned memory as far as there is some.
type card struct {
	memory        *gpumem.Memory
	gpu           int
	node          int  // the NUMA node of pinned memory
	binds         bool // ONNX Runtime takes memory of the GPU
	pinIn, pinOut bool // optimization.input_pinned_memory and output_pinned_memory

	// All below is of one run.
	blocks  []*gpumem.Block // to be freed at its end
	outputs []*gpumem.Block // by output: pinned memory that it is written to; nil: none
	direct  []bool          // by output: it is written to the caller's place
	copies  []gpumem.Copy
	used    []part // clients' memory that the run reads or writes where it is
}

// part is a part of the GPU's memory.
type part struct {
	at   uintptr
	size int
}

func (p part) overlaps(q part) bool {
	return p.at < q.at+uintptr(q.size) && q.at < p.at+uintptr(p.size)
}

// newCard returns nil for an instance that is on no GPU or has none of its memory. nodes are the NUMA nodes that its
// host policy names.
func newCard(m *model, r *capi.Runner, where place, nodes []int) *card {
	if !where.gpu || m.memory == nil {
		return nil
	}
	o := m.spec.Config.GetOptimization()
	c := &card{
		memory: m.memory, gpu: where.device, node: gpumem.AnyNode, outputs: make([]*gpumem.Block, len(m.outputs)),
		direct: make([]bool, len(m.outputs)),
		pinIn:  o.GetInputPinnedMemory() == nil || o.GetInputPinnedMemory().GetEnable(),
		pinOut: o.GetOutputPinnedMemory() == nil || o.GetOutputPinnedMemory().GetEnable(),
	}
	if len(nodes) == 1 {
		c.node = nodes[0]
	}
	if c.pinIn || c.pinOut {
		c.memory.Reserve(c.node) // on the instance's thread, and not while a request waits
	}
	err := r.UseDevice(cmp.Or(m.pretend, capi.CUDA), where.device)
	if c.binds = err == nil; !c.binds {
		m.spec.Log.Warn("onnxruntime takes no memory of a GPU; clients' CUDA regions are copied by way of the host",
			"model", m.spec.ModelName, "gpu", where.device, "err", err)
	}
	return c
}

// UsesDeviceMemory implements backend.DeviceMemoryUser.
func (m *model) UsesDeviceMemory(gpu int) bool {
	if m.memory == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, where := range m.all {
		if where.gpu && where.device == gpu {
			return true
		}
	}
	return false
}

var _ backend.DeviceMemoryUser = (*model)(nil)

// end gives back what a run had and no answer keeps.
func (c *card) end() {
	for i, b := range c.blocks {
		b.Free()
		c.blocks[i] = nil
	}
	for i, b := range c.outputs {
		b.Free()
		c.outputs[i] = nil
	}
	clear(c.direct)
	c.blocks, c.used = c.blocks[:0], c.used[:0]
}

// input returns pinned memory for an input, until the run is over; nil: there is none.
func (c *card) input(size int) []byte {
	if !c.pinIn {
		return nil
	}
	b := c.memory.Pinned(c.node, size)
	if b == nil {
		return nil
	}
	c.blocks = append(c.blocks, b)
	return b.Bytes()
}

// take wraps an output that was written to pinned memory. The caller has the one reference.
func (c *card) take(i int) *tensor.Buffer {
	b := c.outputs[i]
	c.outputs[i] = nil
	return tensor.NewBuffer(b.Bytes(), func(*tensor.Buffer) { b.Free() })
}

// onCard gives the run input i, of the shape x.shape, from the GPU's memory if all the requests have it there; false:
// it has to go by way of the host.
func (x *instance) onCard(i int, requests []*infer.Request, size int, count int64) (bool, error) {
	c := x.card
	if !c.binds || size == 0 {
		return false, nil
	}
	for _, r := range requests {
		if d := x.input(r, i).OnDevice(); d == nil || d.GPU != c.gpu {
			return false, nil
		}
	}
	at := x.input(requests[0], i).OnDevice().Address
	if len(requests) > 1 || !gpumem.Aligned(at) {
		b := c.memory.Device(c.gpu, size)
		if b == nil {
			return false, nil
		}
		c.blocks = append(c.blocks, b)
		c.copies = c.copies[:0]
		to := b.Address
		for _, r := range requests {
			d := x.input(r, i).OnDevice()
			c.copies = append(c.copies, gpumem.Copy{To: to, From: d.Address, Size: d.Size})
			to += uintptr(d.Size)
		}
		if err := c.memory.Copy(c.gpu, c.copies); err != nil {
			return false, status.Errorf(status.InvalidArg,
				"input '%s' cannot be read where it is: %w; the client may have freed its region after its "+
					"registration", x.m.inputs[i].name, err)
		}
		at = b.Address
	} else {
		c.used = append(c.used, part{at, size})
		c.memory.Bound(false, size)
	}
	p := &x.m.inputs[i]
	if err := x.runner.AddDeviceInput(i, p.code, x.shape, count, at, size); err != nil {
		return false, status.Errorf(status.InvalidArg, "input '%s': %w", p.name, err)
	}
	return true, nil
}

// toCard asks the run for output i, of size bytes if that is above 0: on the GPU if all who want it have its place
// there, else in pinned memory if there is some.
func (x *instance) toCard(i int, requests []*infer.Request, size int) {
	c, p := x.card, &x.m.outputs[i]
	known := x.gives && size > 0
	if known {
		x.shape = append(x.shape[:0], p.whole...)
		if x.m.batched {
			x.shape[0] = infer.Rows(requests)
		}
	}
	if c.binds && p.staysOnCard(requests, c.gpu) {
		if known && len(requests) == 1 {
			d := placeOf(requests[0], p.name)
			here := part{d.Address, size}
			if size <= d.Size && gpumem.Aligned(d.Address) && !slices.ContainsFunc(c.used, here.overlaps) {
				c.used = append(c.used, here)
				c.direct[i], x.gave = true, true
				x.runner.AddDeviceOutputTo(i, p.code, x.shape, d.Address, size)
				return
			}
		}
		x.runner.AddDeviceOutput(i)
		return
	}
	if known && c.pinOut {
		if b := c.memory.Pinned(c.node, size); b != nil {
			c.outputs[i], x.gave = b, true
			x.runner.AddOutputTo(i, p.code, x.shape, b.Bytes())
			return
		}
	}
	x.runner.AddOutput(i)
}

// staysOnCard reports whether everybody who wants the output has its place on a GPU, and nobody else needs it.
func (p *port) staysOnCard(requests []*infer.Request, gpu int) bool {
	if p.dt == tensor.Bytes || p.state || p.cut != nil {
		return false
	}
	for _, r := range requests {
		if !p.isWanted(r) {
			continue
		}
		if d := placeOf(r, p.name); d == nil || d.GPU != gpu {
			return false
		}
	}
	return true
}

// placeOf returns where on a GPU a request wants an output; nil: not on a GPU.
func placeOf(r *infer.Request, name string) *tensor.Device {
	if !r.OnDevice {
		return nil
	}
	if o := r.Requested(name); o != nil {
		if s, ok := o.Shared.(infer.DeviceOutput); ok {
			return s.Device()
		}
	}
	return nil
}

// handOnCard adds output i, which is on the GPU, to the responses of those who want it. Whoever reads them copies it to
// its place.
func (x *instance) handOnCard(i int, o capi.Output, requests []*infer.Request, responses []*infer.Response) {
	c, p := x.card, &x.m.outputs[i]
	release := func(*tensor.Buffer) {}
	if c.direct[i] {
		c.memory.Bound(true, o.Size)
	} else {
		v := x.runner.Keep(x.places[i])
		release = func(*tensor.Buffer) { v.Release() }
	}
	all := tensor.NewDeviceBuffer(tensor.Device{GPU: c.gpu, Address: o.Address, Size: o.Size}, release)
	defer all.Release() // the responses have references of their own
	if len(x.shape) == 0 && !x.m.batched {
		x.shape = append(x.shape, p.dims...)
	}
	at, each := o.Address, 0
	if rows := infer.Rows(requests); rows > 0 {
		each = o.Size / int(rows)
	}
	for k, r := range requests {
		size := o.Size
		if x.m.batched {
			size = each * r.BatchSize
			x.shape[0] = int64(r.BatchSize)
		}
		if p.isWanted(r) {
			all.Retain()
			own := tensor.NewDeviceBuffer(tensor.Device{GPU: c.gpu, Address: at, Size: size},
				func(*tensor.Buffer) { all.Release() })
			responses[k].AddOutput(p.name, p.dt, x.shape, nil, own)
		}
		at += uintptr(size)
	}
}
