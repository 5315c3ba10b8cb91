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

// gpuMemory is the GPU memory and the pinned memory of an instance on a GPU. Only the goroutine in Execute uses it.
//
// An input stays on the GPU if all requests have it there. The input of a single request is read in place; the inputs
// of several requests are concatenated on the GPU.
// An output stays on the GPU if all requests that want it have a region there. A single request's output of known size
// is written into the region. Other outputs stay in ONNX Runtime's memory, and the reader of the response copies them.
// All other tensors go through host memory, which is pinned as long as the pool has room.
type gpuMemory struct {
	memory        *gpumem.Memory
	index         int
	node          int  // NUMA node of the pinned memory
	binds         bool // ONNX Runtime accepts memory of the GPU
	pinIn, pinOut bool // optimization.input_pinned_memory and output_pinned_memory

	// State of one run.
	blocks  []*gpumem.Block // freed at the end of the run
	outputs []*gpumem.Block // by output: the pinned memory that it is written to, or nil
	direct  []bool          // by output: it is written to the client's region
	copies  []gpumem.Copy
	used    []memoryRange // clients' memory that the run reads or writes in place
}

// memoryRange is a range of the GPU's memory.
type memoryRange struct {
	at   uintptr
	size int
}

func (p memoryRange) overlaps(q memoryRange) bool {
	return p.at < q.at+uintptr(q.size) && q.at < p.at+uintptr(p.size)
}

// newGPUMemory returns nil for an instance on a CPU, and for a server without GPU memory. nodes are the NUMA nodes of
// the instance's host policy.
func newGPUMemory(m *model, r *capi.Runner, where place, nodes []int) *gpuMemory {
	if !where.gpu || m.memory == nil {
		return nil
	}
	o := m.spec.Config.GetOptimization()
	g := &gpuMemory{
		memory: m.memory, index: where.device, node: gpumem.AnyNode, outputs: make([]*gpumem.Block, len(m.outputs)),
		direct: make([]bool, len(m.outputs)),
		pinIn:  o.GetInputPinnedMemory() == nil || o.GetInputPinnedMemory().GetEnable(),
		pinOut: o.GetOutputPinnedMemory() == nil || o.GetOutputPinnedMemory().GetEnable(),
	}
	if len(nodes) == 1 {
		g.node = nodes[0]
	}
	if g.pinIn || g.pinOut {
		g.memory.Reserve(g.node) // now, on the instance's thread, and not while a request waits
	}
	err := r.UseDevice(cmp.Or(m.fakeGPU, capi.CUDA), where.device)
	if g.binds = err == nil; !g.binds {
		m.spec.Log.Warn("onnxruntime takes no memory of a GPU; clients' CUDA regions are copied by way of the host",
			"model", m.spec.ModelName, "gpu", where.device, "err", err)
	}
	return g
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

// endRun frees the memory of the run that no response uses.
func (g *gpuMemory) endRun() {
	for _, list := range [...][]*gpumem.Block{g.blocks, g.outputs} {
		for i, b := range list {
			b.Free()
			list[i] = nil
		}
	}
	clear(g.direct)
	g.blocks, g.used = g.blocks[:0], g.used[:0]
}

// pinnedInput returns pinned memory for an input until the end of the run, or nil if there is none.
func (g *gpuMemory) pinnedInput(size int) []byte {
	if !g.pinIn {
		return nil
	}
	b := g.memory.Pinned(g.node, size)
	if b == nil {
		return nil
	}
	g.blocks = append(g.blocks, b)
	return b.Bytes()
}

// takeOutput returns a buffer around an output in pinned memory. The caller has its only reference.
func (g *gpuMemory) takeOutput(i int) *tensor.Buffer {
	b := g.outputs[i]
	g.outputs[i] = nil
	return tensor.NewBuffer(b.Bytes(), func(*tensor.Buffer) { b.Free() })
}

// addDeviceInput adds input i, of the shape x.shape, from the GPU's memory. It reports false if the input must go
// through host memory.
func (x *instance) addDeviceInput(i int, requests []*infer.Request, size int, count int64) (bool, error) {
	g, p := x.gpu, &x.m.inputs[i]
	if !g.binds || size == 0 {
		return false, nil
	}
	for _, r := range requests {
		if d := x.input(r, i).OnDevice(); d == nil || d.GPU != g.index {
			return false, nil
		}
	}
	at := x.input(requests[0], i).OnDevice().Address
	if len(requests) > 1 || !gpumem.Aligned(at) || x.fill > 0 {
		b := g.memory.Device(g.index, size)
		if b == nil {
			return false, nil
		}
		g.blocks = append(g.blocks, b)
		g.copies = g.copies[:0]
		to := b.Address
		for _, r := range requests {
			d := x.input(r, i).OnDevice()
			g.copies = append(g.copies, gpumem.Copy{To: to, From: d.Address, Size: d.Size})
			to += uintptr(d.Size)
		}
		last := g.copies[len(g.copies)-1]
		for range x.fill {
			row := size / x.rows
			g.copies = append(g.copies, gpumem.Copy{To: to, From: last.From + uintptr(last.Size-row), Size: row})
			to += uintptr(row)
		}
		if err := g.memory.Copy(g.index, g.copies); err != nil {
			return false, status.Errorf(status.InvalidArg,
				"input '%s' cannot be read where it is: %w; the client may have freed its region after its "+
					"registration", p.name, err)
		}
		at = b.Address
	} else {
		g.used = append(g.used, memoryRange{at, size})
		g.memory.Bound(false, size)
	}
	if err := x.runner.AddDeviceInput(i, p.code, x.shape, count, at, size); err != nil {
		return false, status.Errorf(status.InvalidArg, "input '%s': %w", p.name, err)
	}
	return true, nil
}

// requestGPUOutput requests output i of an instance on a GPU. size is its size in bytes, 0 if unknown.
func (x *instance) requestGPUOutput(i int, requests []*infer.Request, size int) {
	g, p := x.gpu, &x.m.outputs[i]
	known := x.preallocate && size > 0
	if known {
		x.preallocatedShape(p)
	}
	if g.binds && p.staysOnGPU(requests, g.index) {
		if known && len(requests) == 1 && x.fill == 0 {
			d := deviceRegion(requests[0], p.name)
			here := memoryRange{d.Address, size}
			if size <= d.Size && gpumem.Aligned(d.Address) && !slices.ContainsFunc(g.used, here.overlaps) {
				g.used = append(g.used, here)
				g.direct[i], x.preallocated = true, true
				x.runner.AddDeviceOutputTo(i, p.code, x.shape, d.Address, size)
				return
			}
		}
		x.runner.AddDeviceOutput(i)
		return
	}
	if known && g.pinOut {
		if b := g.memory.Pinned(g.node, size); b != nil {
			g.outputs[i], x.preallocated = b, true
			x.runner.AddOutputTo(i, p.code, x.shape, b.Bytes())
			return
		}
	}
	x.runner.AddOutput(i)
}

// staysOnGPU reports whether all requests that want the output have a region on the GPU for it, and the server itself
// does not read it.
func (p *port) staysOnGPU(requests []*infer.Request, gpu int) bool {
	if p.dt == tensor.Bytes || p.state || p.split != nil {
		return false
	}
	for _, r := range requests {
		if !p.isWanted(r) {
			continue
		}
		if d := deviceRegion(r, p.name); d == nil || d.GPU != gpu {
			return false
		}
	}
	return true
}

// deviceRegion returns the GPU memory that a request names for an output, or nil.
func deviceRegion(r *infer.Request, name string) *tensor.Device {
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

// deviceBuffer returns a buffer around output i in the GPU's memory. The caller has its only reference.
func (x *instance) deviceBuffer(i int, o capi.Output) *tensor.Buffer {
	release := func(*tensor.Buffer) {}
	if x.gpu.direct[i] {
		x.gpu.memory.Bound(true, o.Size)
	} else {
		v := x.runner.Keep(x.index[i])
		release = func(*tensor.Buffer) { v.Release() }
	}
	return tensor.NewDeviceBuffer(tensor.Device{GPU: x.gpu.index, Address: o.Address, Size: o.Size}, release)
}

// addDevicePart adds a part of whole, of the shape x.shape, to a response. The reader of the response copies it to the
// client's region, unless it is there already.
func (x *instance) addDevicePart(p *port, r *infer.Request, resp *infer.Response, d tensor.Device,
	whole *tensor.Buffer) {
	if p.isWanted(r) {
		whole.Retain()
		part := tensor.NewDeviceBuffer(d, func(*tensor.Buffer) { whole.Release() })
		resp.AddOutput(p.name, p.dt, x.shape, nil, part)
	}
}
