package grpcapi

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// The fields of InferTensorContents.
const (
	boolContents   = 1
	intContents    = 2
	int64Contents  = 3
	uintContents   = 4
	uint64Contents = 5
	fp32Contents   = 6
	fp64Contents   = 7
	bytesContents  = 8
)

// counts holds the number of elements per field of an InferTensorContents. Index 0 counts the bytes of bytes_contents.
type counts [bytesContents + 1]int64

// scalarType is the wire type of a contents field's single elements.
func scalarType(num protowire.Number) protowire.Type {
	switch {
	case num >= boolContents && num <= uint64Contents:
		return protowire.VarintType
	case num == fp32Contents:
		return protowire.Fixed32Type
	case num == fp64Contents:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

// add checks an encoded InferTensorContents and counts its elements.
func (c *counts) add(b []byte) error {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return malformed("inputs.contents")
		}
		b = b[n:]
		switch {
		case num > bytesContents || typ != protowire.BytesType && typ != scalarType(num):
			n = protowire.ConsumeFieldValue(num, typ, b)
		case typ != protowire.BytesType: // one element of a repeated field that is not packed
			n = protowire.ConsumeFieldValue(num, typ, b)
			c[num]++
		default:
			var v []byte
			if v, n = consumeBytes(b); n < 0 {
				break
			}
			k := int64(-1)
			switch scalarType(num) {
			case protowire.VarintType:
				k = countVarints(v)
			case protowire.Fixed32Type:
				if len(v)%4 == 0 {
					k = int64(len(v) / 4)
				}
			case protowire.Fixed64Type:
				if len(v)%8 == 0 {
					k = int64(len(v) / 8)
				}
			default:
				k = 1
				c[0] += int64(len(v))
			}
			if k < 0 {
				return malformed("inputs.contents")
			}
			c[num] += k
		}
		if n < 0 {
			return malformed("inputs.contents")
		}
		b = b[n:]
	}
	return nil
}

// countVarints returns how many varints b is made of, -1 if it is not.
func countVarints(b []byte) int64 {
	k := int64(0)
	for len(b) > 0 {
		if b[0] < 0x80 {
			b = b[1:]
		} else {
			_, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return -1
			}
			b = b[n:]
		}
		k++
	}
	return k
}

// typed turns the typed contents of an input into the bytes of its data type. Packed floats stay where they are.
func (m *message) typed(t *tensor.Tensor, in *input, own *tensor.Buffer) error {
	field := protowire.Number(0)
	for num := protowire.Number(1); num <= bytesContents; num++ {
		if in.counts[num] == 0 {
			continue
		}
		if want := contentsType(num, t.DataType); want != t.DataType {
			return status.Errorf(status.InvalidArg,
				"unexpected explicit tensor data for input tensor '%s' for model '%s' of type '%s', expected datatype '%s'",
				t.Name, m.r.ModelName, want, t.DataType)
		}
		field = num
	}
	if field == 0 {
		t.Data = nil
		return nil
	}
	size := in.counts[field] * int64(t.DataType.Size())
	if field == bytesContents {
		size = in.counts[0] + 4*in.counts[field]
	}
	if (field == fp32Contents || field == fp64Contents) && m.packedView(t, in, field, size, own) {
		return nil
	}
	buf := m.pool.Get(int(size))
	m.r.Own(buf)
	appendContents(buf.Bytes()[:0], in.contents, field, t.DataType)
	t.Data, t.Buf = buf.Bytes(), buf
	return nil
}

// contentsType is the data type that a contents field carries: the tensor's own where the field serves several.
func contentsType(num protowire.Number, dt tensor.DataType) tensor.DataType {
	switch num {
	case boolContents:
		return tensor.Bool
	case intContents:
		if dt == tensor.Int8 || dt == tensor.Int16 {
			return dt
		}
		return tensor.Int32
	case int64Contents:
		return tensor.Int64
	case uintContents:
		if dt == tensor.Uint8 || dt == tensor.Uint16 {
			return dt
		}
		return tensor.Uint32
	case uint64Contents:
		return tensor.Uint64
	case fp32Contents:
		return tensor.FP32
	case fp64Contents:
		return tensor.FP64
	}
	return tensor.Bytes
}

// packedView makes t a view of the message if its floats are one packed run: those are the tensor's very bytes.
func (m *message) packedView(t *tensor.Tensor, in *input, field protowire.Number, size int64, own *tensor.Buffer) bool {
	b := in.contents
	num, typ, n := consumeTag(b)
	if num != field || typ != protowire.BytesType {
		return false
	}
	v, _ := consumeBytes(b[n:])
	if int64(len(v)) != size {
		return false
	}
	t.Data, t.Buf = v, own
	return true
}

// appendContents appends the elements of one field of an InferTensorContents that counts accepted.
func appendContents(dst, b []byte, field protowire.Number, dt tensor.DataType) []byte {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		b = b[n:]
		switch {
		case num != field || typ != protowire.BytesType && typ != scalarType(num):
			n = protowire.ConsumeFieldValue(num, typ, b)
		case typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			dst = appendVarint(dst, v, dt)
		case typ != protowire.BytesType: // a single fixed-width number
			n = protowire.ConsumeFieldValue(num, typ, b)
			dst = append(dst, b[:n]...)
		default:
			var v []byte
			v, n = consumeBytes(b)
			switch scalarType(num) {
			case protowire.VarintType:
				dst = appendVarints(dst, v, dt)
			case protowire.BytesType:
				dst = tensor.AppendBytesElement(dst, v)
			default:
				dst = append(dst, v...)
			}
		}
		b = b[n:]
	}
	return dst
}

func appendVarints(dst, b []byte, dt tensor.DataType) []byte {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		dst = appendVarint(dst, v, dt)
		b = b[n:]
	}
	return dst
}

// appendVarint appends a number as an element of an integer or boolean type. Numbers outside the type's range lose
// their upper bits, as in Triton.
func appendVarint(dst []byte, v uint64, dt tensor.DataType) []byte {
	switch dt {
	case tensor.Bool:
		if v != 0 {
			v = 1
		}
		return append(dst, byte(v))
	case tensor.Int8, tensor.Uint8:
		return append(dst, byte(v))
	case tensor.Int16, tensor.Uint16:
		return binary.LittleEndian.AppendUint16(dst, uint16(v&math.MaxUint16))
	case tensor.Int32, tensor.Uint32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v&math.MaxUint32))
	}
	return binary.LittleEndian.AppendUint64(dst, v)
}
