package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"nereid/engine/compare"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// flatten appends the scalars of nested JSON arrays to dst, in row-major order.
func flatten(dst []any, v any) []any {
	if list, ok := v.([]any); ok {
		for _, e := range list {
			dst = flatten(dst, e)
		}
		return dst
	}
	return append(dst, v)
}

// encodeElements converts a JSON array of a tensor's elements into binary tensor data.
func encodeElements(dt tensor.DataType, raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	list, ok := v.([]any)
	if !ok {
		return nil, status.New(status.InvalidArg, "content is not an array")
	}
	var out []byte
	for i, e := range flatten(nil, list) {
		var err error
		if out, err = appendElement(out, dt, e); err != nil {
			return nil, status.Errorf(status.InvalidArg, "element %d: %w", i, err)
		}
	}
	return out, nil
}

func appendElement(out []byte, dt tensor.DataType, e any) ([]byte, error) {
	switch v := e.(type) {
	case string:
		if dt == tensor.Bytes {
			return tensor.AppendBytesElement(out, v), nil
		}
	case bool:
		if dt == tensor.Bool && v {
			return append(out, 1), nil
		} else if dt == tensor.Bool {
			return append(out, 0), nil
		}
	case json.Number:
		return appendNumber(out, dt, v.String())
	}
	return nil, status.Errorf(status.InvalidArg, "%v is not a %s", e, dt)
}

func appendNumber(out []byte, dt tensor.DataType, text string) ([]byte, error) {
	bits := dt.Size() * 8
	switch dt {
	case tensor.Bool:
		switch text {
		case "0":
			return append(out, 0), nil
		case "1":
			return append(out, 1), nil
		}
	case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			break
		}
		switch dt {
		case tensor.FP64:
			return tensor.AppendBits(out, bits, math.Float64bits(f)), nil
		case tensor.FP32:
			return tensor.AppendBits(out, bits, uint64(math.Float32bits(float32(f)))), nil
		case tensor.BF16:
			return tensor.AppendBits(out, bits, uint64(math.Float32bits(float32(f))>>16)), nil
		}
		return tensor.AppendBits(out, bits, uint64(toHalf(float32(f)))), nil
	default:
		if out, ok := tensor.AppendInteger(out, dt, text); ok {
			return out, nil
		}
	}
	return nil, status.Errorf(status.InvalidArg, "%s is not a %s", text, dt)
}

// toHalf converts to half precision, rounding towards zero.
func toHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, exp, frac := uint16(b>>16)&0x8000, int(b>>23&0xff)-127+15, b&0x7fffff
	switch {
	case b&0x7fffffff > 0x7f800000: // NaN
		return sign | 0x7e00
	case exp >= 31:
		return sign | 0x7c00
	case exp > 0:
		return sign | uint16(exp)<<10 | uint16(frac>>13)
	case exp > -10: // subnormal
		return sign | uint16((frac|0x800000)>>(14-exp))
	}
	return sign
}

// compareTensors returns an error with the first difference between got and want. Floating point numbers may differ by
// tolerance; see compare.Difference.Within.
func compareTensors(got, want *tensor.Tensor, tolerance float64) error {
	if err := compare.Check(got, want); err != nil {
		return err
	}
	if !compare.IsFloat(got.DataType) {
		if !bytes.Equal(got.Data, want.Data) {
			return status.Errorf(status.Internal, "output '%s' differs from the expected data", got.Name)
		}
		return nil
	}
	if at, g, w := compare.FirstOutside(got, want, tolerance); at >= 0 {
		return status.Errorf(status.Internal, "output '%s', element %d is %v, want %v within %v", got.Name, at, g, w,
			tolerance)
	}
	return nil
}
