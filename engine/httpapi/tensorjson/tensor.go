package tensorjson

import (
	"encoding/binary"
	"math"
	"slices"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// unable says which member an error is about. Syntax errors may be wrapped too: Scanner.Read finds them again.
func unable(member string, err error) error {
	if err == nil {
		return nil
	}
	return status.New(status.InvalidArg, "Unable to parse '"+member+"': "+err.Error())
}

func missing(member string) error {
	return status.New(status.InvalidArg,
		"Unable to parse '"+member+"': attempt to access non-existing object member '"+member+"'")
}

func errDataShape() error {
	return status.New(status.InvalidArg, "Unable to parse 'data': Shape does not match true shape of 'data' field")
}

// CheckInput refuses the types that have no form in JSON, for the input of a name.
func CheckInput(dt tensor.DataType, name string) error {
	if dt != tensor.FP16 && dt != tensor.BF16 {
		return nil
	}
	return status.Errorf(status.InvalidArg, "receiving %s data via JSON is not supported. "+
		"Please use the binary data format for input %s", dt, name)
}

// Values reads a number or boolean, or lists of them that nest in any way. It stores them in row-major order from the
// front of dst, and returns the part of dst that is left. dst must have room for one value at least. dt must be a type
// of fixed size that CheckInput accepts. Integers that do not fit dt are wrapped, as Triton does.
func (s *Scanner) Values(dt tensor.DataType, dst []byte) (rest []byte, err error) {
	s.single = dt == tensor.FP32
	if s.Peek() == '[' {
		rest, err = s.values(dt, dst)
	} else if err = s.value(dt, dst); err == nil {
		rest = dst[dt.Size():]
	}
	s.single = false
	return rest, err
}

func (s *Scanner) values(dt tensor.DataType, dst []byte) ([]byte, error) {
	size, depth := dt.Size(), s.depth
	for first := true; ; first = false {
		more, err := s.leaf(first, depth)
		if err != nil || !more {
			return dst, err
		}
		if len(dst) < size {
			return dst, errDataShape()
		}
		if err := s.value(dt, dst); err != nil {
			return dst, err
		}
		dst = dst[size:]
	}
}

// leaf moves to the next value that is no list, in lists that nest in any way, and returns more = false behind the
// end of the outermost. The first call stands on its bracket, where the scanner has that depth.
func (s *Scanner) leaf(first bool, depth int) (more bool, err error) {
	for {
		if more, err = s.element(first); err != nil {
			return false, err
		}
		switch {
		case !more && s.depth == depth:
			return false, nil
		case more && s.Peek() != '[':
			return true, nil
		}
		first = more
	}
}

// value reads one number or boolean.
func (s *Scanner) value(dt tensor.DataType, dst []byte) error {
	if dt == tensor.Bool {
		v, err := s.Bool()
		dst[0] = 0
		if v {
			dst[0] = 1
		}
		return unable("data", err)
	}
	n, err := s.number()
	if err != nil {
		return err
	}
	switch dt {
	case tensor.FP32:
		if n.kind == notNumber {
			return unable("data", ErrNotNumber)
		}
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(n.float())))
	case tensor.FP64:
		if n.kind == notNumber {
			return unable("data", ErrNotNumber)
		}
		binary.LittleEndian.PutUint64(dst, math.Float64bits(n.float()))
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		v, ok := n.signed()
		if !ok {
			return unable("data", ErrNotSigned)
		}
		putInt(dst, dt.Size(), uint64(v))
	default:
		v, ok := n.unsigned()
		if !ok {
			return unable("data", ErrNotUnsigned)
		}
		putInt(dst, dt.Size(), v)
	}
	return nil
}

func putInt(dst []byte, size int, v uint64) {
	switch size {
	case 1:
		dst[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(dst, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(dst, uint32(v))
	case 8:
		binary.LittleEndian.PutUint64(dst, v)
	}
}

// Strings reads a string, or lists of them that nest in any way, and appends them to w as BYTES elements. It returns
// their number.
func (s *Scanner) Strings(w *Builder) (count int64, err error) {
	if s.Peek() != '[' {
		return 1, s.appendString(w)
	}
	depth := s.depth
	for first := true; ; first = false {
		more, err := s.leaf(first, depth)
		if err != nil || !more {
			return count, err
		}
		if err := s.appendString(w); err != nil {
			return count, err
		}
		count++
	}
}

func (s *Scanner) appendString(w *Builder) error {
	text, err := s.Text()
	if err != nil {
		return status.New(status.InvalidArg, "Unable to parse JSON bytes array: "+err.Error())
	}
	w.Room(4 + len(text))
	w.B = tensor.AppendBytesElement(w.B, text)
	return nil
}

// ragged is the shape that Measure returns for lists that are not rectangular.
var ragged = [...]int64{-1}

// Measure looks at the value that the scanner stands on without moving. n is the number of values in it that are no
// lists. shape is nil for a value that is no list, the length of a plain list, the lengths of lists in lists, or [-1]
// if lists of one level have different lengths.
func (s *Scanner) Measure() (n int64, shape []int64, err error) {
	at, depth := s.pos, s.depth
	n, shape, err = s.measure()
	s.pos, s.depth = at, depth
	return n, shape, err
}

func (s *Scanner) measure() (n int64, shape []int64, err error) {
	if s.Peek() != '[' {
		return 1, nil, s.Skip()
	}
	even := true
	err = s.Array(func() error {
		count, inner, err := int64(1), []int64(nil), error(nil)
		if s.Peek() == '[' {
			count, inner, err = s.measure()
		} else { // nearly always
			err = s.Skip()
		}
		if err != nil {
			return err
		}
		if shape == nil {
			shape = append([]int64{0}, inner...)
		}
		even = even && slices.Equal(shape[1:], inner) && !slices.Equal(inner, ragged[:])
		n += count
		shape[0]++
		return nil
	})
	switch {
	case err != nil:
		return 0, nil, err
	case !even:
		return n, ragged[:], nil
	case shape == nil:
		shape = []int64{0}
	}
	return n, shape, nil
}
