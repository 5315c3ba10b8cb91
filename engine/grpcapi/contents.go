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
	f := fields{b: b}
	for f.next() {
		if f.num > bytesContents {
			continue
		}
		n := int64(1)
		switch want := scalarType(f.num); {
		case f.typ != protowire.BytesType && f.typ != want:
			continue
		case f.typ != protowire.BytesType: // one element of a repeated field that is not packed
		case want == protowire.VarintType:
			if n = countVarints(f.data); n < 0 {
				return malformed("inputs.contents")
			}
		case want == protowire.BytesType:
			c[0] += int64(len(f.data))
		default:
			size := fixedSize(want)
			if len(f.data)%size != 0 {
				return malformed("inputs.contents")
			}
			n = int64(len(f.data) / size)
		}
		c[f.num] += n
	}
	if f.bad {
		return malformed("inputs.contents")
	}
	return nil
}

// countVarints returns how many numbers b consists of, -1 if it does not consist of numbers.
func countVarints(b []byte) int64 {
	k := int64(0)
	for len(b) > 0 {
		_, n := consumeVarint(b)
		if n < 0 {
			return -1
		}
		b = b[n:]
		k++
	}
	return k
}

// fixedSize returns the bytes of a number of protowire.Fixed32Type or protowire.Fixed64Type.
func fixedSize(t protowire.Type) int {
	if t == protowire.Fixed32Type {
		return 4
	}
	return 8
}

// typed makes the data of a tensor from its typed contents. Packed floats are not copied.
func (m *message) typed(t *tensor.Tensor, in *input, own *tensor.Buffer) error {
	field := protowire.Number(0)
	for num := protowire.Number(1); num <= bytesContents; num++ {
		if in.counts[num] == 0 {
			continue
		}
		if want := contentsType(num, t.DataType); want != t.DataType {
			return status.Errorf(status.InvalidArg,
				"unexpected explicit tensor data for input tensor '%s' for model '%s' "+
					"of type '%s', expected datatype '%s'", t.Name, m.r.ModelName, want, t.DataType)
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
	if (field == fp32Contents || field == fp64Contents) && packedView(t, in, field, size, own) {
		return nil
	}
	buf, err := m.pool.Try(int(size), 0)
	if err != nil {
		return err
	}
	m.r.Own(buf)
	appendContents(buf.Bytes()[:0], in.contents, field, t.DataType)
	t.Data, t.Buf = buf.Bytes(), buf
	return nil
}

// contentsType returns the data type of a contents field, which is the tensor's own if the field serves several.
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

// packedView makes t a view of the message if its floats are one packed run: their encoding is the tensor's.
func packedView(t *tensor.Tensor, in *input, field protowire.Number, size int64, own *tensor.Buffer) bool {
	f := fields{b: in.contents}
	if !f.next() || !f.bytes(field) || int64(len(f.data)) != size {
		return false
	}
	t.Data, t.Buf = f.data, own
	return true
}

// appendContents appends the elements of one field of an InferTensorContents that counts accepted.
func appendContents(dst, b []byte, field protowire.Number, dt tensor.DataType) []byte {
	f := fields{b: b}
	for f.next() {
		scalar := scalarType(field)
		switch {
		case f.num != field || f.typ != protowire.BytesType && f.typ != scalar:
		case f.typ == protowire.VarintType:
			dst = appendVarint(dst, f.bits, dt)
		case f.typ == protowire.Fixed32Type:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(f.bits))
		case f.typ == protowire.Fixed64Type:
			dst = binary.LittleEndian.AppendUint64(dst, f.bits)
		case scalar == protowire.VarintType:
			for b := f.data; len(b) > 0; {
				v, n := consumeVarint(b)
				dst, b = appendVarint(dst, v, dt), b[n:]
			}
		case scalar == protowire.BytesType:
			dst = tensor.AppendBytesElement(dst, f.data)
		default:
			dst = append(dst, f.data...)
		}
	}
	return dst
}

// appendVarint appends a number as an element of an integer or boolean type. Numbers outside of the type's range lose
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
