package compare

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Difference is how much the elements of two tensors of one type and shape differ.
//
// Equal infinities are equal, and so are two NaN. An element with NaN or an infinity on one side only, or with opposite
// infinities, counts as Special and is in no maximum.
type Difference struct {
	Elements int
	// Differing counts the elements that are not equal, Special among them.
	Differing int
	Special   int
	// MaxAbs is the largest |a-b|, and At the element that has it. Differences above the largest float64 count as that.
	// BOOL counts as 0 and 1. BYTES elements have no numbers: At is the first that differs, and the maxima are 0.
	MaxAbs float64
	At     int
	// MaxRel is the largest |a-b| / max(|a|, |b|).
	MaxRel float64
	// MaxError is the largest |a-b| / max(1, |b|): absolute for numbers below 1, else relative.
	MaxError float64
}

// Within reports whether every number differs by at most tolerance; see MaxError. Without one, for texts, elements must
// be equal.
func (d Difference) Within(tolerance float64, dt tensor.DataType) bool {
	if dt == tensor.Bytes {
		return d.Differing == 0
	}
	return d.Special == 0 && d.MaxError <= tolerance
}

// Tensors compares two tensors, whose content is in the host's memory. Errors: Check's.
func Tensors(a, b *tensor.Tensor) (Difference, error) {
	if err := Check(a, b); err != nil {
		return Difference{}, err
	}
	if a.DataType == tensor.Bytes {
		return texts(a, b), nil
	}
	size := a.DataType.Size()
	d := Difference{Elements: len(a.Data) / size}
	if bytes.Equal(a.Data, b.Data) { // also NaN that has the same bits
		return d, nil
	}
	for i := range d.Elements {
		d.add(i, pairOf(a.DataType, a.Data[i*size:], b.Data[i*size:]))
	}
	return d, nil
}

// FirstOutside returns the index of the first element that is not within tolerance, -1 if all are, with its numbers as
// float64. The tensors are of one floating point type and have passed Check.
func FirstOutside(a, b *tensor.Tensor, tolerance float64) (at int, x, y float64) {
	size := a.DataType.Size()
	for i := range len(a.Data) / size {
		p := pairOf(a.DataType, a.Data[i*size:], b.Data[i*size:])
		if !p.equal && (p.special || p.err() > tolerance) {
			return i, p.a, p.b
		}
	}
	return -1, 0, 0
}

// Check returns Internal with the reason if two tensors cannot be compared: their types or shapes differ, or their
// content does not fit their shape.
func Check(a, b *tensor.Tensor) error {
	if a.DataType != b.DataType || !slices.Equal(a.Shape, b.Shape) {
		return status.Errorf(status.Internal, "output '%s' is %s %s, want %s %s", a.Name,
			a.DataType, tensor.FormatShape(a.Shape), b.DataType, tensor.FormatShape(b.Shape))
	}
	n, err := tensor.Elements(a.Shape)
	if err != nil {
		return status.Errorf(status.Internal, "output '%s': %w", a.Name, err)
	}
	for _, t := range []*tensor.Tensor{a, b} {
		if t.DataType == tensor.Bytes {
			err = tensor.CheckBytes(t.Data, n)
		} else if !fits(t, n) {
			err = status.Errorf(status.Internal, "%d bytes do not fit %s %s", len(t.Data), t.DataType,
				tensor.FormatShape(t.Shape))
		}
		if err != nil {
			return status.Errorf(status.Internal, "output '%s': %w", a.Name, err)
		}
	}
	return nil
}

// fits reports whether a tensor has n elements of a fixed size.
func fits(t *tensor.Tensor, n int64) bool {
	size := t.DataType.Size()
	return size > 0 && len(t.Data)%size == 0 && int64(len(t.Data)/size) == n
}

// texts compares BYTES tensors that have passed Check.
func texts(a, b *tensor.Tensor) (d Difference) {
	right := b.Data
	for i, x := range tensor.BytesElements(a.Data) {
		n := binary.LittleEndian.Uint32(right)
		y := right[4 : 4+n]
		right = right[4+n:]
		d.Elements++
		if bytes.Equal(x, y) {
			continue
		}
		if d.Differing == 0 {
			d.At = i
		}
		d.Differing++
	}
	return d
}

// pair is two elements at the same place.
type pair struct {
	a, b    float64
	abs     float64
	equal   bool
	special bool // see Difference; abs is 0
}

func pairOf(dt tensor.DataType, a, b []byte) pair {
	if !IsFloat(dt) {
		return integers(dt, a, b)
	}
	p := pair{a: tensor.Float(dt, a), b: tensor.Float(dt, b)}
	switch {
	case p.a == p.b || math.IsNaN(p.a) && math.IsNaN(p.b):
		p.equal = true
	case !finite(p.a) || !finite(p.b):
		p.special = true
	default:
		p.abs = min(math.Abs(p.a-p.b), math.MaxFloat64)
	}
	return p
}

// integers subtracts exactly: large ones may be the same float64 and yet differ.
func integers(dt tensor.DataType, a, b []byte) pair {
	x, y := Integer(dt, a), Integer(dt, b)
	p := pair{a: float64(int64(x)), b: float64(int64(y)), equal: x == y}
	smaller := int64(x) < int64(y)
	if dt == tensor.Uint64 {
		p.a, p.b, smaller = float64(x), float64(y), x < y
	}
	if smaller {
		x, y = y, x
	}
	p.abs = float64(x - y)
	return p
}

// Integer returns the first element of data, of an integer type or BOOL. Signed numbers are extended to 64 bits.
func Integer(dt tensor.DataType, data []byte) uint64 {
	switch dt {
	case tensor.Int8:
		return uint64(int8(data[0]))
	case tensor.Int16:
		return uint64(int16(binary.LittleEndian.Uint16(data)))
	case tensor.Uint16:
		return uint64(binary.LittleEndian.Uint16(data))
	case tensor.Int32:
		return uint64(int32(binary.LittleEndian.Uint32(data)))
	case tensor.Uint32:
		return uint64(binary.LittleEndian.Uint32(data))
	case tensor.Int64, tensor.Uint64:
		return binary.LittleEndian.Uint64(data)
	}
	return uint64(data[0])
}

// IsFloat reports whether a type has floating point numbers.
func IsFloat(dt tensor.DataType) bool {
	switch dt {
	case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
		return true
	}
	return false
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// err is the error as in Difference.MaxError.
func (p pair) err() float64 { return p.abs / max(1, math.Abs(p.b)) }

func (d *Difference) add(i int, p pair) {
	if p.equal {
		return
	}
	d.Differing++
	if p.special {
		d.Special++
		return
	}
	if p.abs > d.MaxAbs {
		d.MaxAbs, d.At = p.abs, i
	}
	d.MaxRel = max(d.MaxRel, p.abs/max(math.Abs(p.a), math.Abs(p.b)))
	d.MaxError = max(d.MaxError, p.err())
}
