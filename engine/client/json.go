package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"unicode/utf8"

	"nereid/engine/tensor"
)

// FromJSON makes a tensor from a JSON array in row-major order, which may nest, like "data" in the KServe protocol. The
// shape must have as many elements as there are values. FP16, BF16 and unknown types have no form in JSON.
func FromJSON(name string, dt tensor.DataType, shape []int64, data json.RawMessage) (Tensor, error) {
	return fromJSON(name, dt, shape, data, appendValue)
}

// fromJSON is FromJSON with a function that appends a JSON token as an element.
func fromJSON(name string, dt tensor.DataType, shape []int64, data json.RawMessage,
	add func([]byte, tensor.DataType, json.Token) ([]byte, error),
) (Tensor, error) {
	t := Tensor{Name: name, DataType: dt, Shape: shape, Data: []byte{}}
	if lists[dt] == nil {
		return t, fmt.Errorf("tensor %q: type %v has no form in JSON; give the bytes instead", name, dt)
	}
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
		if t.Data, err = add(t.Data, dt, tok); err != nil {
			return t, fmt.Errorf("tensor %q: element %d: %w", name, n, err)
		}
		n++
	}
	if n != want {
		return t, fmt.Errorf("tensor %q has %d values, its shape %v needs %d", name, n, shape, want)
	}
	return t, nil
}

// stringOrSpecial matches a JSON string, and what servers write for numbers that JSON does not have.
var stringOrSpecial = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)

// quoteSpecials makes strings of the tokens NaN, Infinity and -Infinity, for appendQuoted.
func quoteSpecials(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	return stringOrSpecial.ReplaceAllFunc(text, func(s []byte) []byte {
		if s[0] == '"' {
			return s
		}
		return strconv.AppendQuote(nil, string(s))
	})
}

// appendQuoted is appendValue for a text from quoteSpecials.
func appendQuoted(b []byte, dt tensor.DataType, tok json.Token) ([]byte, error) {
	switch tok {
	case "NaN", "Infinity", "-Infinity":
		if dt == tensor.FP32 || dt == tensor.FP64 {
			return appendNumber(b, dt, tok.(string))
		}
	}
	return appendValue(b, dt, tok)
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

// lists read the elements of tensors into slices that package json encodes as arrays.
var lists = map[tensor.DataType]func(t *Tensor) (any, error){
	tensor.Bool: list[bool], tensor.FP32: list[float32], tensor.FP64: list[float64],
	tensor.Uint16: list[uint16], tensor.Uint32: list[uint32], tensor.Uint64: list[uint64],
	tensor.Int8: list[int8], tensor.Int16: list[int16], tensor.Int32: list[int32], tensor.Int64: list[int64],
	tensor.Uint8: func(t *Tensor) (any, error) { // json encodes bytes in base64
		values, err := Values[uint8](t)
		out := make([]uint16, len(values))
		for i, v := range values {
			out[i] = uint16(v)
		}
		return out, err
	},
	tensor.Bytes: func(t *Tensor) (any, error) { // json replaces what is not UTF-8
		values, err := StringValues(t)
		for i, v := range values {
			if !utf8.ValidString(v) {
				return nil, fmt.Errorf("tensor %q: string %d is not UTF-8; use the binary form", t.Name, i)
			}
		}
		return values, err
	},
}

func list[T Element](t *Tensor) (any, error) { return Values[T](t) }

// ToJSON returns the elements of a tensor as a flat JSON array. It fails for what JSON cannot express: FP16 and
// BF16, NaN and infinities, and strings that are not UTF-8.
func ToJSON(t *Tensor) (json.RawMessage, error) {
	read, ok := lists[t.DataType]
	if !ok {
		return nil, fmt.Errorf("tensor %q: type %v has no form in JSON; use the binary form", t.Name, t.DataType)
	}
	values, err := read(t)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(values)
	if err != nil { // NaN or infinite
		return nil, fmt.Errorf("tensor %q: %w; use the binary form", t.Name, err)
	}
	return b, nil
}
