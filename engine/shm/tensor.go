package shm

import (
	"math"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Range is where a tensor lies: the parameters shared_memory_region, shared_memory_offset and shared_memory_byte_size.
type Range struct {
	Region       string // may be a view of the request's memory
	Offset, Size uint64 // in bytes; the offset is within the region
}

// Budget bounds what one request may take out of regions. The bytes are copied, and an object of a client's may be far
// larger than the memory that it takes, so that their number says nothing of what the client had to spend. The zero value
// is a whole budget.
type Budget struct{ taken uint64 }

// MaxRequest is the bytes that the inputs of one request may have in regions: as many as a gRPC message.
const MaxRequest = math.MaxInt32

func (b *Budget) take(n uint64) error {
	if n > MaxRequest-b.taken {
		return status.Errorf(status.InvalidArg, "the inputs of a request may have %d bytes in shared memory; split the request", uint64(MaxRequest))
	}
	b.taken += n
	return nil
}

// find returns a region with a reference, and checks the range.
func (g *Registry) find(at Range) (*region, error) {
	var r *region
	if g != nil {
		g.mu.RLock()
		if r = g.regions[at.Region]; r != nil {
			r.retain()
		}
		g.mu.RUnlock()
	}
	if r == nil {
		return nil, status.Errorf(status.NotFound, "Unable to find shared memory region: '%s'", at.Region)
	}
	var err error
	switch {
	case at.Offset >= r.size:
		err = status.Errorf(status.InvalidArg, "Invalid offset for shared memory region: '%s'", at.Region)
	case at.Size > math.MaxUint64-at.Offset:
		err = status.Errorf(status.InvalidArg,
			"Integer overflow detected: byte_size (%d) + offset (%d) exceeds maximum value (%d) for region '%s'",
			at.Size, at.Offset, uint64(math.MaxUint64), at.Region)
	case at.Size > r.size-at.Offset:
		err = status.Errorf(status.InvalidArg, "Invalid offset + byte size for shared memory region: '%s'", at.Region)
	}
	if err != nil {
		_ = r.release() // the request fails with what is wrong with it
		return nil, err
	}
	return r, nil
}

// inputBufferMin is the least size in bytes of an input that is copied into Options.InputBuffer. Smaller ones travel with the
// request's message.
const inputBufferMin = 16 << 10

// Read copies an input of a type for r, whose model is known, out of a region: into Options.InputBuffer or a buffer of the
// pool. The caller owns the buffer's reference. With Options.Direct the buffer may be the region itself. For a model that
// takes inputs on the GPU where the region is, it is a device's buffer. Errors: NotFound for a name, InvalidArg for a range
// that the region does not have (any more) or that is over the budget.
func (g *Registry) Read(r *infer.Request, pool *tensor.Pool, at Range, dt tensor.DataType, b *Budget) (*tensor.Buffer, error) {
	from, err := g.find(at)
	if err != nil {
		return nil, err
	}
	if d := g.device(r, from, at, dt); d != nil {
		if err := b.take(at.Size); err != nil {
			_ = from.release() // it was not read
			return nil, err
		}
		return tensor.NewDeviceBuffer(*d, func(*tensor.Buffer) { _ = from.release() }), nil
	}
	if view := from.view(at, dt); view != nil {
		return tensor.NewBuffer(view, func(*tensor.Buffer) { _ = from.release() }), nil
	}
	defer from.release() //nolint:errcheck // what was read stands
	if err := b.take(at.Size); err != nil {
		return nil, err
	}
	var buf *tensor.Buffer
	if g.o.InputBuffer != nil && at.Size >= inputBufferMin && dt.Size() > 0 { // the lengths of BYTES are checked, and must not change after
		buf = g.o.InputBuffer(r.ModelName, r.Version, int(at.Size))
	}
	if buf == nil {
		buf = pool.Get(int(at.Size))
	}
	if err := from.read(buf.Bytes(), at); err != nil {
		buf.Release()
		return nil, err
	}
	return buf, nil
}

// read copies a range to the host.
func (r *region) read(b []byte, at Range) error {
	n, err := r.mem.ReadAt(b, int64(at.Offset))
	if n < int(at.Size) {
		return r.errCopy("read", at, err)
	}
	return nil
}

// device returns a range as what the model of r can use where it is; nil: it has to be read.
func (g *Registry) device(r *infer.Request, from *region, at Range, dt tensor.DataType) *tensor.Device {
	if g.o.OnDevice == nil || at.Size == 0 || dt.Size() == 0 {
		return nil
	}
	d := from.onDevice(at)
	if d == nil || !g.o.OnDevice(r.ModelName, r.Version, d.GPU) {
		return nil
	}
	at.Region = "" // the request's own text
	d.Read = func(b []byte) error { return from.read(b, at) }
	return d
}

// onDevice returns where a range is; nil: it is not on a GPU, or that cannot be told.
func (r *region) onDevice(at Range) *tensor.Device {
	mem, ok := r.mem.(DeviceMemory)
	if !ok || at.Size > math.MaxInt {
		return nil
	}
	return &tensor.Device{GPU: int(r.device), Address: mem.Address() + uintptr(at.Offset), Size: int(at.Size)}
}

// clientMemory is a Memory that other processes can map.
type clientMemory interface {
	// writeAround is WriteAt that leaves the caches to others.
	writeAround(p []byte, off int64) (int, error)
}

// errCopy says that a range of a registered region could not be read or written.
func (r *region) errCopy(verb string, at Range, err error) error {
	why := "the client may have shrunk it after its registration"
	if r.kind == CUDA {
		why = "the client may have freed it after its registration"
	}
	return status.Errorf(status.InvalidArg, "cannot %s %d bytes at offset %d of shared memory region '%s': %w; %s",
		verb, at.Size, at.Offset, r.name, err, why)
}

// view returns the mapped bytes of a range if they can be used as they are. Elements of BYTES tensors cannot: their lengths
// are checked, and must not change after. Others must be aligned as C wants it.
func (r *region) view(at Range, dt tensor.DataType) []byte {
	if r.mapped == nil || dt.Size() == 0 || at.Size == 0 {
		return nil
	}
	v := r.mapped[at.Offset : at.Offset+at.Size : at.Offset+at.Size]
	if uintptr(unsafe.Pointer(&v[0]))%8 != 0 {
		return nil
	}
	return v
}

// slot is the part of a region that an output goes to.
type slot struct {
	g  *Registry
	r  *region
	at Range
}

var _ infer.DeviceOutput = (*slot)(nil)

// Slot returns where an output goes; the caller owns it. The errors are Read's.
func (g *Registry) Slot(at Range) (infer.SharedOutput, error) {
	r, err := g.find(at)
	if err != nil {
		return nil, err
	}
	at.Region = r.name // the request's own text may go before the slot does
	s := &slot{g: g, r: r, at: at}
	g.outgoing.Add(s.room())
	return s, nil
}

// room is how many bytes of the host's memory the slot has, for crowded.
func (s *slot) room() int64 {
	if s.r.kind == CUDA {
		return 0
	}
	return int64(s.at.Size)
}

// crowd is for how many bytes of other outputs the caches are too small. With inputs as large they fill half of a large one.
const crowd = 6 << 20

// crowded reports whether the caches are too small for the outputs of all requests under way: until its client looks at this one
// it would be gone from there, and with it what others need. It goes by the room that the other slots have.
func (s *slot) crowded() bool { return s.g.outgoing.Load()-s.room() >= crowd }

// Size returns the bytes that there is room for.
func (s *slot) Size() uint64 { return s.at.Size }

// Device returns where the slot is on a GPU; nil: it is not.
func (s *slot) Device() *tensor.Device { return s.r.onDevice(s.at) }

// take stores an output that fits from where it is: nothing is to be done for one that is there already. False: it has to go by
// way of the host, like one of another GPU.
func (s *slot) take(d *tensor.Device) (done bool, err error) {
	here := s.Device()
	switch {
	case here == nil || here.GPU != d.GPU:
		return false, nil
	case here.Address == d.Address:
		return true, nil
	}
	if err := s.r.mem.(DeviceMemory).CopyFrom(d.Address, d.Size, int64(s.at.Offset)); err != nil {
		return false, s.r.errCopy("write", Range{Offset: s.at.Offset, Size: uint64(d.Size)}, err)
	}
	return true, nil
}

// Release lets the region go.
func (s *slot) Release() {
	s.g.outgoing.Add(-s.room())
	_ = s.r.release()
}

// Write stores an output that fits. Errors: InvalidArg when the memory is not there any more.
func (s *slot) Write(b []byte) error {
	var err error
	if m, ok := s.r.mem.(clientMemory); ok && s.crowded() {
		_, err = m.writeAround(b, int64(s.at.Offset))
	} else {
		_, err = s.r.mem.WriteAt(b, int64(s.at.Offset))
	}
	if err != nil {
		return s.r.errCopy("write", Range{Offset: s.at.Offset, Size: uint64(len(b))}, err)
	}
	return nil
}

// Store writes the outputs that r wants in shared memory there, and takes their bytes out of resp, in which they keep name,
// type and shape. Nothing is written unless every output fits. Errors: Internal, with Triton's text, for an output that does
// not, and Write's. On an error resp's outputs are still to be released.
func Store(r *infer.Request, resp *infer.Response) error {
	shared := false
	for i := range r.Outputs {
		s := r.Outputs[i].Shared
		if s == nil {
			continue
		}
		shared = true
		if t := resp.Output(r.Outputs[i].Name); t != nil && uint64(t.Size()) > s.Size() {
			return status.Errorf(status.Internal,
				"shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold the results",
				t.Name, s.Size(), t.Size())
		}
	}
	if !shared {
		return nil
	}
	for i := range r.Outputs {
		s := r.Outputs[i].Shared
		if s == nil {
			continue
		}
		t := resp.Output(r.Outputs[i].Name)
		if t == nil || t.Size() == 0 {
			continue
		}
		if err := write(s, t); err != nil {
			return err
		}
		t.Release()
	}
	return nil
}

// write stores an output that fits, wherever it is.
func write(to infer.SharedOutput, t *tensor.Tensor) error {
	d := t.OnDevice()
	if d == nil {
		return to.Write(t.Data)
	}
	if s, ok := to.(*slot); ok {
		if done, err := s.take(d); done || err != nil {
			return err
		}
	}
	b := make([]byte, d.Size)
	if err := d.ReadAll(b); err != nil {
		return err
	}
	return to.Write(b)
}
