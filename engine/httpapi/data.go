package httpapi

import (
	"encoding/binary"
	"math"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

func errDataShape() error { return unable("data", "Shape does not match true shape of 'data' field") }

// data reads an input's data into memory of its own. Arrays may nest in any way: what counts is the order of the
// values and their number. Memory is bounded by the document: each value takes at least two bytes of it.
func (p *requestParser) data(f *inputFields) error {
	if p.peek() != '[' {
		return unable("data", nonArray)
	}
	if f.dt == tensor.FP16 || f.dt == tensor.BF16 {
		return status.Errorf(status.InvalidArg, "receiving %s data via JSON is not supported. "+
			"Please use the binary data format for input %s", f.dt, f.name)
	}
	n, err := tensor.Elements(f.shape)
	if err != nil {
		return status.Errorf(status.InvalidArg, "input '%s': %w", f.name, err)
	}
	left := int64(len(p.b) - p.i)
	if n > left/2 {
		return errDataShape()
	}
	if f.dt == tensor.Bytes {
		return p.stringData(f, n, left)
	}
	buf := p.pool.Get(int(n) * f.dt.Size())
	p.r.Own(buf)
	p.single = f.dt == tensor.FP32
	dst, err := p.values(f.dt, buf.Bytes())
	p.single = false
	if err != nil {
		return err
	}
	if len(dst) != 0 {
		return errDataShape()
	}
	f.data, f.buf = buf.Bytes(), buf
	return nil
}

// values reads numbers or booleans of one type and stores them from the front of dst. It returns what is left of dst.
func (p *requestParser) values(dt tensor.DataType, dst []byte) ([]byte, error) {
	size, depth := dt.Size(), p.depth
	first := true
	for {
		more, err := p.element(first)
		if err != nil {
			return dst, err
		}
		first = false
		if !more {
			if p.depth == depth {
				return dst, nil
			}
			continue
		}
		for p.peek() == '[' {
			if more, err = p.element(true); err != nil {
				return dst, err
			}
			if !more {
				break
			}
		}
		if !more {
			continue
		}
		if len(dst) < size {
			return dst, errDataShape()
		}
		if err := p.value(dt, dst); err != nil {
			return dst, err
		}
		dst = dst[size:]
	}
}

// value reads one value. Integers that do not fit their type are wrapped, as Triton does.
func (p *requestParser) value(dt tensor.DataType, dst []byte) error {
	if dt == tensor.Bool {
		v, ok := p.boolean()
		if !ok {
			return unable("data", nonBoolean)
		}
		dst[0] = 0
		if v {
			dst[0] = 1
		}
		return nil
	}
	n, err := p.number()
	if err != nil {
		return err
	}
	switch dt {
	case tensor.FP32:
		if n.kind == notNumber {
			return unable("data", nonNumber)
		}
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(n.float())))
	case tensor.FP64:
		if n.kind == notNumber {
			return unable("data", nonNumber)
		}
		binary.LittleEndian.PutUint64(dst, math.Float64bits(n.float()))
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		v, ok := n.signed()
		if !ok {
			return unable("data", nonSigned)
		}
		putInt(dst, dt.Size(), uint64(v))
	default:
		v, ok := n.unsigned()
		if !ok {
			return unable("data", nonUnsigned)
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

// stringData reads n strings as BYTES elements; left is how much of the document is left.
func (p *requestParser) stringData(f *inputFields, n, left int64) error {
	var w builder
	w.start(p.pool, int(4*n+min(left, 32*n)))
	count, err := p.strings(&w)
	if err == nil && count != n {
		err = errDataShape()
	}
	if err != nil {
		w.drop()
		return err
	}
	f.buf = w.finish()
	f.data = f.buf.Bytes()
	p.r.Own(f.buf)
	return nil
}

func errBytesArray() error {
	return status.New(status.InvalidArg, "Unable to parse JSON bytes array: "+nonString)
}

func (p *requestParser) strings(w *builder) (count int64, err error) {
	depth, first := p.depth, true
	for {
		more, err := p.element(first)
		if err != nil {
			return count, err
		}
		first = false
		if !more {
			if p.depth == depth {
				return count, nil
			}
			continue
		}
		for p.peek() == '[' {
			if more, err = p.element(true); err != nil {
				return count, err
			}
			if !more {
				break
			}
		}
		if !more {
			continue
		}
		if p.peek() != '"' {
			return count, errBytesArray()
		}
		text, err := p.text()
		if err != nil {
			return count, err
		}
		w.room(4 + len(text))
		w.b = tensor.AppendBytesElement(w.b, text)
		count++
	}
}
