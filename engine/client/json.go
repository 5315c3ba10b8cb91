package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"nereid/engine/tensor"
)

// FromJSON makes a tensor from a JSON array in row-major order, which may nest, like "data" in the KServe protocol. The
// shape must have as many elements as there are values. FP16 and BF16 have no form in JSON.
func FromJSON(name string, dt tensor.DataType, shape []int64, data json.RawMessage) (Tensor, error) {
	t := Tensor{Name: name, DataType: dt, Shape: shape, Data: []byte{}}
	want, err := tensor.Elements(shape)
	if err != nil {
		return t, fmt.Errorf("tensor %q: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var n int64
	depth := 0
	for {
		tok, err := dec.Token()
		if err == io.EOF && depth == 0 {
			break
		}
		if err != nil {
			return t, fmt.Errorf("tensor %q: element %d: %w", name, n, err)
		}
		switch tok {
		case json.Delim('['):
			depth++
			continue
		case json.Delim(']'):
			depth--
			continue
		}
		if depth == 0 {
			return t, fmt.Errorf("tensor %q: its data is %v; want an array", name, tok)
		}
		if t.Data, err = appendValue(t.Data, dt, tok); err != nil {
			return t, fmt.Errorf("tensor %q: element %d: %w", name, n, err)
		}
		n++
	}
	if n != want {
		return t, fmt.Errorf("tensor %q has %d values, its shape %v needs %d", name, n, shape, want)
	}
	return t, nil
}

// appendValue appends a JSON token as an element.
func appendValue(b []byte, dt tensor.DataType, tok json.Token) ([]byte, error) {
	switch dt {
	case tensor.Bytes:
		if s, ok := tok.(string); ok {
			return tensor.AppendBytesElement(b, s), nil
		}
	case tensor.Bool:
		switch tok {
		case true, json.Number("1"):
			return append(b, 1), nil
		case false, json.Number("0"):
			return append(b, 0), nil
		}
	default:
		if n, ok := tok.(json.Number); ok {
			return appendNumber(b, dt, n.String())
		}
	}
	return b, fmt.Errorf("%v (%T) is no value of type %v", tok, tok, dt)
}

func appendNumber(b []byte, dt tensor.DataType, s string) ([]byte, error) {
	bits := dt.Size() * 8
	switch dt {
	case tensor.FP32, tensor.FP64:
		v, err := strconv.ParseFloat(s, bits)
		if err != nil {
			return b, fmt.Errorf("%s is no value of type %v", s, dt)
		}
		if dt == tensor.FP32 {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v))), nil
		}
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v)), nil
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32,
		tensor.Uint64:
		b, ok := tensor.AppendInteger(b, dt, s)
		if !ok {
			return b, fmt.Errorf("%s is no value of type %v", s, dt)
		}
		return b, nil
	}
	return b, fmt.Errorf("type %v has no form in JSON; give the bytes instead", dt)
}

// ToJSON returns the elements of a tensor as a flat JSON array. Strings that are not UTF-8 are changed.
func ToJSON(t *Tensor) (json.RawMessage, error) {
	n, err := t.elements()
	if err != nil {
		return nil, err
	}
	if t.DataType == tensor.Bytes {
		values, err := StringValues(t)
		if err != nil {
			return nil, err
		}
		return json.Marshal(values)
	}
	size := t.DataType.Size()
	if size == 0 || len(t.Data) != n*size {
		return nil, fmt.Errorf("tensor %q has %d bytes, which its type %v and shape %v do not fit",
			t.Name, len(t.Data), t.DataType, t.Shape)
	}
	b := []byte{'['}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendElement(b, t.DataType, t.Data[i*size:(i+1)*size]); err != nil {
			return nil, fmt.Errorf("tensor %q: element %d: %w", t.Name, i, err)
		}
	}
	return append(b, ']'), nil
}

// appendElement appends an element as JSON.
func appendElement(b []byte, dt tensor.DataType, e []byte) ([]byte, error) {
	var all [8]byte
	copy(all[:], e)
	v := binary.LittleEndian.Uint64(all[:])
	switch dt {
	case tensor.Bool:
		return strconv.AppendBool(b, v != 0), nil
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return strconv.AppendUint(b, v, 10), nil
	case tensor.Int8:
		return strconv.AppendInt(b, int64(int8(v)), 10), nil
	case tensor.Int16:
		return strconv.AppendInt(b, int64(int16(v)), 10), nil
	case tensor.Int32:
		return strconv.AppendInt(b, int64(int32(v)), 10), nil
	case tensor.Int64:
		return strconv.AppendInt(b, int64(v), 10), nil
	case tensor.FP32:
		return appendFloat(b, float64(math.Float32frombits(uint32(v))), 32)
	case tensor.FP64:
		return appendFloat(b, math.Float64frombits(v), 64)
	}
	return b, fmt.Errorf("type %v has no form in JSON; use the binary form", dt)
}

func appendFloat(b []byte, v float64, bits int) ([]byte, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return b, fmt.Errorf("%v has no form in JSON; use the binary form", v)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits), nil
}
