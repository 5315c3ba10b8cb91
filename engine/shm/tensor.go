package shm

import (
	"math"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Range is where a tensor is: the parameters shared_memory_region, shared_memory_offset and shared_memory_byte_size.
type Range struct {
	Region       string // may be a view of the request's memory
	Offset, Size uint64 // in bytes; the offset is within the region
}

// Quota bounds the bytes that one request may copy out of regions. A sparse object may be far larger than the memory
// that it takes, so that a client could make the server copy much at no cost to itself. The zero value is an unused
// quota.
type Quota struct{ taken uint64 }

// MaxRequest is the number of bytes that the inputs of one request may have in regions. It is that of a gRPC message.
const MaxRequest = math.MaxInt32

func (q *Quota) take(n uint64) error {
	if n > MaxRequest-q.taken {
		return status.Errorf(status.InvalidArg,
			"the inputs of a request may have %d bytes in shared memory; split the request", uint64(MaxRequest))
	}
	q.taken += n
	return nil
}

// find checks a range, and returns its region with a reference.
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
		err = errBehind(at)
	}
	if err != nil {
		_ = r.release() // the request fails with err
		return nil, err
	}
	return r, nil
}

func errBehind(at Range) error {
	return status.Errorf(status.InvalidArg, "Invalid offset + byte size for shared memory region: '%s'", at.Region)
}

// inputBufferMin is the least size in bytes of an input that is copied into Options.InputBuffer. Smaller ones travel
// with the request's message.
const inputBufferMin = 16 << 10

// Read returns an input of r, whose model is known, from a region. It copies the input into Options.InputBuffer or a
// buffer of the pool. With Options.Direct the buffer may be the region itself. For a model that takes inputs on the
// region's GPU, it is a device's buffer. The caller owns the buffer's reference. Errors: NotFound for an unknown name.
// InvalidArg for a range that exceeds the quota, or the region, which the client may have shrunk.
func (g *Registry) Read(
	r *infer.Request, pool *tensor.Pool, at Range, dt tensor.DataType, q *Quota,
) (*tensor.Buffer, error) {
	from, err := g.find(at)
	if err != nil {
		return nil, err
	}
	if d := g.device(r, from, at, dt); d != nil {
		if err := q.take(at.Size); err != nil {
			_ = from.release() // nothing was read
			return nil, err
		}
		return tensor.NewDeviceBuffer(*d, func(*tensor.Buffer) { _ = from.release() }), nil
	}
	if view := from.view(at, dt); view != nil {
		return tensor.NewBuffer(view, func(*tensor.Buffer) { _ = from.release() }), nil
	}
	defer from.release() //nolint:errcheck // the copy is valid in any case
	if err := q.take(at.Size); err != nil {
		return nil, err
	}
	var buf *tensor.Buffer
	// The model's process can change an input buffer. The lengths in BYTES must not change after they were checked.
	if g.o.InputBuffer != nil && at.Size >= inputBufferMin && dt.Size() > 0 {
		buf = g.o.InputBuffer(r.ModelName, r.Version, int(at.Size))
	}
	if buf == nil {
		if buf, err = pool.Try(int(at.Size), 0); err != nil {
			return nil, err
		}
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

// device returns a range for a model that can use it on its GPU; nil: it must be copied.
func (g *Registry) device(r *infer.Request, from *region, at Range, dt tensor.DataType) *tensor.Device {
	if g.o.OnDevice == nil || at.Size == 0 || dt.Size() == 0 {
		return nil
	}
	d := from.onDevice(at)
	if d == nil || !g.o.OnDevice(r.ModelName, r.Version, d.GPU) {
		return nil
	}
	at.Region = "" // its memory is the request's
	d.Read = func(b []byte) error { return from.read(b, at) }
	return d
}

// onDevice returns where on a GPU a range is; nil: it is not on a GPU.
func (r *region) onDevice(at Range) *tensor.Device {
	mem, ok := r.mem.(DeviceMemory)
	if !ok || at.Size > math.MaxInt {
		return nil
	}
	return &tensor.Device{GPU: int(r.device), Address: mem.Address() + uintptr(at.Offset), Size: int(at.Size)}
}

// errCopy returns the error for a range of a registered region that cannot be read or written.
func (r *region) errCopy(verb string, at Range, err error) error {
	why := "the client may have shrunk it after its registration"
	if r.kind == CUDA {
		why = "the client may have freed it after its registration"
	}
	return status.Errorf(status.InvalidArg, "cannot %s %d bytes at offset %d of shared memory region '%s': %w; %s",
		verb, at.Size, at.Offset, r.name, err, why)
}

// view returns the mapped bytes of a range if they can be used without a copy. BYTES tensors cannot, because their
// lengths must not change after they were checked. Others must be aligned as in C.
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

// slot is the part of a region to which an output is written.
type slot struct {
	r  *region
	at Range
}

var _ infer.DeviceOutput = (*slot)(nil)

// Slot returns the destination of an output. The caller must release it. The errors are those of Read, and InvalidArg
// for a place without bytes at the start of a region: as in Triton, a request without a size is refused there.
func (g *Registry) Slot(at Range) (infer.SharedOutput, error) {
	r, err := g.find(at)
	if err != nil {
		return nil, err
	}
	if at.Size == 0 && at.Offset == 0 {
		_ = r.release() // the request fails with the error below
		return nil, errBehind(at)
	}
	at.Region = r.name // the memory of the old string is the request's
	return &slot{r: r, at: at}, nil
}

// Size returns the size of the slot in bytes.
func (s *slot) Size() uint64 { return s.at.Size }

// Device returns where the slot is on a GPU; nil: it is not.
func (s *slot) Device() *tensor.Device { return s.r.onDevice(s.at) }

// copyOnDevice stores an output that fits and is on the slot's GPU. It copies nothing if the output is already in the
// slot. done is false for an output that is elsewhere.
func (s *slot) copyOnDevice(d *tensor.Device) (done bool, err error) {
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

// Release releases the region.
func (s *slot) Release() { _ = s.r.release() }

// Write stores an output that fits. Errors: InvalidArg if the memory no longer exists.
func (s *slot) Write(b []byte) error {
	if _, err := s.r.mem.WriteAt(b, int64(s.at.Offset)); err != nil {
		return s.r.errCopy("write", Range{Offset: s.at.Offset, Size: uint64(len(b))}, err)
	}
	return nil
}

// Store writes the outputs that r requests in shared memory, and removes their bytes from resp, in which their name,
// type and shape stay. Nothing is written unless every output fits. Errors: Internal, with Triton's text, for an
// output that does not fit, and those of Write. On an error the caller must still release resp's outputs.
func Store(r *infer.Request, resp *infer.Response) error {
	shared := false
	for i := range r.Outputs {
		s := r.Outputs[i].Shared
		if s == nil {
			continue
		}
		shared = true
		if t := resp.Output(r.Outputs[i].Name); t != nil && uint64(t.Size()) > s.Size() {
			return status.Errorf(status.Internal, "shared memory size specified with the request for output '%s' "+
				"(%d bytes) should be at least %d bytes to hold the results", t.Name, s.Size(), t.Size())
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

// write stores an output that fits.
func write(to infer.SharedOutput, t *tensor.Tensor) error {
	d := t.OnDevice()
	if d == nil {
		return to.Write(t.Data)
	}
	if s, ok := to.(*slot); ok {
		if done, err := s.copyOnDevice(d); done || err != nil {
			return err
		}
	}
	b := make([]byte, d.Size)
	if err := d.ReadAll(b); err != nil {
		return err
	}
	return to.Write(b)
}
