package tensor

import (
	"encoding/binary"
	"math"

	"nereid/engine/status"
)

// Tensor is a named, typed view of bytes. A copy of a Tensor has the same bytes and takes no reference. To keep a
// tensor longer than the call that provides it, retain Buf.
type Tensor struct {
	Name     string
	DataType DataType
	// Shape is in elements per dimension, the batch dimension (if the model has one) first.
	Shape []int64
	// Data is the content: Elements(Shape)*DataType.Size() bytes, or the elements with their lengths for BYTES. It is
	// nil if Buf is GPU memory (OnDevice). Only code that declares that it accepts GPU memory gets such tensors.
	Data []byte
	// Buf owns Data. nil: the garbage collector owns Data, which needs no reference.
	Buf *Buffer
}

// OnDevice returns the GPU memory with the whole content, nil if the content is in Data.
func (t *Tensor) OnDevice() *Device {
	if t.Data != nil || t.Buf == nil {
		return nil
	}
	return t.Buf.device
}

// Size returns the size of the content in bytes.
func (t *Tensor) Size() int {
	if d := t.OnDevice(); d != nil {
		return d.Size
	}
	return len(t.Data)
}

// ToHost replaces GPU memory by a copy in memory of the pool. The caller holds the one reference on the returned
// buffer. The buffer is nil if the content was in host memory. The reference on the GPU memory stays with its holder.
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

// ReadAll copies the whole memory into b, which is large enough. Errors: Internal if the host cannot read it, else
// Read's.
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

// Release drops a reference on the tensor's buffer and clears Buf and Data.
func (t *Tensor) Release() {
	if t.Buf != nil {
		t.Buf.Release()
	}
	t.Buf, t.Data = nil, nil
}

const (
	copyPiece = 256 << 10 // below the size from which copy bypasses the CPU caches
	copyMost  = 16 << 20  // no cache is large enough for more
)

// Copy is copy for content that will be read soon. From 1 MiB on, copy writes around the CPU caches, so that the next
// reader waits for main memory. Copy copies in pieces to avoid that, unless the content is too large for the caches.
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
	size, err := SplitBytes(b, n)
	if err == nil && size != len(b) {
		err = status.Errorf(status.InvalidArg, "BYTES tensor has %d bytes left over after %d elements", len(b)-size, n)
	}
	return err
}

// AppendBytesElement appends one BYTES element: its length, then its bytes. It panics for elements over 4 GiB.
func AppendBytesElement[S string | []byte](dst []byte, s S) []byte {
	if uint64(len(s)) > math.MaxUint32 {
		panic("tensor: BYTES element over 4 GiB")
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// BytesElements yields the elements of a BYTES tensor that CheckBytes accepts, as views of b.
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

// SplitBytes returns the size in bytes of the first n elements of b. It returns InvalidArg if b is shorter.
func SplitBytes(b []byte, n int64) (int, error) {
	at := 0
	for i := range n {
		left := len(b) - at - 4
		if left < 0 {
			return 0, status.Errorf(status.InvalidArg, "BYTES tensor ends before the length of element %d of %d", i, n)
		}
		size := binary.LittleEndian.Uint32(b[at:])
		if uint64(size) > uint64(left) {
			return 0, status.Errorf(status.InvalidArg,
				"BYTES tensor ends inside element %d of %d: its length says %d, %d bytes are left", i, n, size, left)
		}
		at += 4 + int(size)
	}
	return at, nil
}
