package tensor

import (
	"encoding/binary"
	"math"

	"nereid/engine/status"
)

// Tensor is a named, typed view of bytes. A Tensor is a value: copying it copies the view, not the bytes, and takes
// no reference. Whoever stores one beyond the call that gave it retains Buf and releases it later.
type Tensor struct {
	Name     string
	DataType DataType
	// Shape is in elements per dimension, the batch dimension (if the model has one) first.
	Shape []int64
	// Data is the content: Elements(Shape)*DataType.Size() bytes, or for BYTES the length-prefixed elements. nil if Buf is
	// memory of a GPU (OnDevice), which only those get who say that they take it.
	Data []byte
	// Buf owns Data. Nil: Data is the garbage collector's and may be kept without a reference.
	Buf *Buffer
}

// OnDevice returns the memory of a GPU that has the content, all of it, nil if Data has.
func (t *Tensor) OnDevice() *Device {
	if t.Data != nil || t.Buf == nil {
		return nil
	}
	return t.Buf.device
}

// Size returns the bytes of the content, wherever it is.
func (t *Tensor) Size() int {
	if d := t.OnDevice(); d != nil {
		return d.Size
	}
	return len(t.Data)
}

// ToHost replaces memory of a GPU by a copy in memory of the pool's, whose one reference the caller gets: it is nil where the
// content was the host's already. The reference on what the tensor had before stays with who has it.
func (t *Tensor) ToHost(pool *Pool) (*Buffer, error) {
	d := t.OnDevice()
	if d == nil {
		return nil, nil
	}
	buf := pool.Get(d.Size)
	if err := d.ReadAll(buf.Bytes()); err != nil {
		buf.Release()
		return nil, err
	}
	t.Data, t.Buf = buf.Bytes(), buf
	return buf, nil
}

// ReadAll copies all of it into b, which has room. Errors: Internal where nobody can, else Read's.
func (d *Device) ReadAll(b []byte) error {
	if d.Read == nil {
		return status.Errorf(status.Internal, "memory of GPU %d cannot be read by the host", d.GPU)
	}
	return d.Read(b[:d.Size])
}

// Retain takes a reference on the tensor's buffer, if it has one.
func (t *Tensor) Retain() {
	if t.Buf != nil {
		t.Buf.Retain()
	}
}

// Release drops a reference on the tensor's buffer and forgets the bytes.
func (t *Tensor) Release() {
	if t.Buf != nil {
		t.Buf.Release()
	}
	t.Buf, t.Data = nil, nil
}

const (
	copyPiece = 256 << 10
	copyMost  = 16 << 20
)

// Copy is copy for content that is about to be used again. From 1 MiB on copy writes around the caches, and whoever uses the
// content next waits for memory: a tensor that is passed on twice takes double the time. Content that no cache has room for
// is copied so.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n > copyMost {
		return copy(dst, src)
	}
	for at := 0; at < n; at += copyPiece {
		copy(dst[at:n], src[at:min(at+copyPiece, n)])
	}
	return n
}

// CheckBytes returns InvalidArg unless b holds exactly n BYTES elements.
// Format: Triton's binary tensor data extension.
func CheckBytes(b []byte, n int64) error {
	for i := range n {
		if len(b) < 4 {
			return status.Errorf(status.InvalidArg, "BYTES tensor ends before the length of element %d of %d", i, n)
		}
		size := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if uint64(size) > uint64(len(b)) {
			return status.Errorf(status.InvalidArg,
				"BYTES tensor ends inside element %d of %d: its length says %d, %d bytes are left", i, n, size, len(b))
		}
		b = b[size:]
	}
	if len(b) != 0 {
		return status.Errorf(status.InvalidArg, "BYTES tensor has %d bytes left over after %d elements", len(b), n)
	}
	return nil
}

// AppendBytesElement appends one BYTES element: its length, then its bytes. It panics for elements over 4 GiB.
func AppendBytesElement[S string | []byte](dst []byte, s S) []byte {
	if uint64(len(s)) > math.MaxUint32 {
		panic("tensor: BYTES element over 4 GiB")
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// BytesElements yields the elements of a BYTES tensor that CheckBytes accepted, as views into b.
func BytesElements(b []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for i := 0; len(b) >= 4; i++ {
			n := int(binary.LittleEndian.Uint32(b))
			if n > len(b)-4 || !yield(i, b[4:4+n:4+n]) {
				return
			}
			b = b[4+n:]
		}
	}
}

// SplitBytes returns the length in bytes of the first n elements of b. It returns InvalidArg if b ends early.
func SplitBytes(b []byte, n int64) (int, error) {
	at := 0
	for i := range n {
		if len(b)-at < 4 {
			return 0, status.Errorf(status.InvalidArg, "BYTES tensor ends before the length of element %d", i)
		}
		size := uint64(binary.LittleEndian.Uint32(b[at:]))
		if size > uint64(len(b)-at-4) {
			return 0, status.Errorf(status.InvalidArg, "BYTES tensor ends inside element %d", i)
		}
		at += 4 + int(size)
	}
	return at, nil
}
