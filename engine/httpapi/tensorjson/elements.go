package tensorjson

import (
	"encoding/binary"
	"math"
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Elements appends a tensor's elements as JSON values with commas between them. Errors: InvalidArg for a type that has
// no form in JSON, Internal if data and shape do not fit, those of Grow.
func (w *Builder) Elements(t *tensor.Tensor) error {
	if t.DataType == tensor.FP16 || t.DataType == tensor.BF16 {
		return status.Errorf(status.InvalidArg, "sending %s data via JSON is not supported. "+
			"Please use the binary data format for output", t.DataType)
	}
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return errOutputSize(t)
	}
	if t.DataType == tensor.Bytes {
		if tensor.CheckBytes(t.Data, n) != nil {
			return errOutputSize(t)
		}
		return w.strings(t.Data)
	}
	size := t.DataType.Size()
	if size == 0 || int64(len(t.Data)) != n*int64(size) {
		return errOutputSize(t)
	}
	if err := w.Grow(2 * len(t.Data)); err != nil { // a guess
		return err
	}
	const chunk, width = 64, 26 // elements; bytes of the longest one and its comma
	for data := t.Data; len(data) > 0; {
		some := min(len(data), chunk*size)
		if err := w.Grow(some / size * width); err != nil {
			return err
		}
		w.B = appendElements(w.B, t.DataType, data[:some])
		data = data[some:]
	}
	if n > 0 {
		w.B = w.B[:len(w.B)-1] // the last comma
	}
	return nil
}

func errOutputSize(t *tensor.Tensor) error {
	return status.Errorf(status.Internal, "output tensor shape does not match size of output for '%s'", t.Name)
}

// appendElements appends elements with a comma behind each.
func appendElements(b []byte, dt tensor.DataType, data []byte) []byte {
	switch dt {
	case tensor.FP32:
		for ; len(data) >= 4; data = data[4:] {
			f := math.Float32frombits(binary.LittleEndian.Uint32(data))
			b = append(AppendFloat(b, float64(f)), ',')
		}
	case tensor.FP64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(AppendFloat(b, math.Float64frombits(binary.LittleEndian.Uint64(data))), ',')
		}
	case tensor.Int32:
		for ; len(data) >= 4; data = data[4:] {
			b = append(strconv.AppendInt(b, int64(int32(binary.LittleEndian.Uint32(data))), 10), ',')
		}
	case tensor.Int64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(strconv.AppendInt(b, int64(binary.LittleEndian.Uint64(data)), 10), ',')
		}
	case tensor.Int16:
		for ; len(data) >= 2; data = data[2:] {
			b = append(strconv.AppendInt(b, int64(int16(binary.LittleEndian.Uint16(data))), 10), ',')
		}
	case tensor.Int8:
		for _, v := range data {
			b = append(strconv.AppendInt(b, int64(int8(v)), 10), ',')
		}
	case tensor.Uint64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(strconv.AppendUint(b, binary.LittleEndian.Uint64(data), 10), ',')
		}
	case tensor.Uint32:
		for ; len(data) >= 4; data = data[4:] {
			b = append(strconv.AppendUint(b, uint64(binary.LittleEndian.Uint32(data)), 10), ',')
		}
	case tensor.Uint16:
		for ; len(data) >= 2; data = data[2:] {
			b = append(strconv.AppendUint(b, uint64(binary.LittleEndian.Uint16(data)), 10), ',')
		}
	case tensor.Uint8:
		for _, v := range data {
			b = append(strconv.AppendUint(b, uint64(v), 10), ',')
		}
	case tensor.Bool:
		for _, v := range data {
			b = append(strconv.AppendBool(b, v != 0), ',')
		}
	}
	return b
}

// strings appends BYTES elements as strings with commas between them.
func (w *Builder) strings(data []byte) error {
	for i, e := range tensor.BytesElements(data) {
		if err := w.Grow(len(e) + len(e)/8 + 16); err != nil {
			return err
		}
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = AppendString(w.B, e)
	}
	return nil
}

// ListWriter writes a tensor's elements as lists in lists, from the first to the last.
type ListWriter struct {
	Tensor *tensor.Tensor
	rest   []byte // what is not written
}

// NewListWriter returns a writer of t. Errors: Internal if data and shape do not fit.
func NewListWriter(t *tensor.Tensor) (ListWriter, error) {
	n, err := tensor.Elements(t.Shape)
	if err != nil || t.DataType == tensor.Bytes && tensor.CheckBytes(t.Data, n) != nil ||
		t.DataType != tensor.Bytes && n*int64(t.DataType.Size()) != int64(len(t.Data)) {
		return ListWriter{}, errOutputSize(t)
	}
	return ListWriter{Tensor: t, rest: t.Data}, nil
}

// Write appends the next elements to w as lists of the shape; without dimensions, one element. There must be as many.
// Errors: InvalidArg for a type that has no form in JSON.
func (l *ListWriter) Write(w *Builder, shape []int64) error {
	if len(shape) == 0 {
		return l.flat(w, 1)
	}
	w.Raw("[")
	if len(shape) == 1 {
		if err := l.flat(w, shape[0]); err != nil {
			return err
		}
	} else {
		for i := range shape[0] {
			if i > 0 {
				w.Raw(",")
			}
			if err := l.Write(w, shape[1:]); err != nil {
				return err
			}
		}
	}
	w.Raw("]")
	return nil
}

// flat writes the next n elements with commas between them.
func (l *ListWriter) flat(w *Builder, n int64) error {
	part := tensor.Tensor{Name: l.Tensor.Name, DataType: l.Tensor.DataType, Shape: []int64{n}}
	size := int(n) * part.DataType.Size()
	if part.DataType == tensor.Bytes {
		for size = 0; n > 0; n-- {
			size += 4 + int(binary.LittleEndian.Uint32(l.rest[size:]))
		}
	}
	part.Data, l.rest = l.rest[:size], l.rest[size:]
	return w.Elements(&part)
}

// AppendParameters appends response parameters as an object.
func appendParameters(b []byte, params []infer.Parameter) []byte {
	b = append(b, '{')
	for i := range params {
		q := &params[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, q.Name), ':')
		b = appendParameterValue(b, q)
	}
	return append(b, '}')
}

func appendParameterValue(b []byte, q *infer.Parameter) []byte {
	switch q.Kind {
	case infer.BoolParameter:
		return strconv.AppendBool(b, q.Bool)
	case infer.IntParameter:
		return strconv.AppendInt(b, q.Int, 10)
	case infer.UintParameter:
		return strconv.AppendUint(b, q.Uint, 10)
	case infer.FloatParameter:
		return AppendFloat(b, q.Float)
	case infer.StringParameter:
		return AppendString(b, q.Text)
	}
	return append(b, "null"...)
}
