package httpapi

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// classify replaces the outputs that were asked for as classes by BYTES tensors "value:index[:label]", the highest
// value first, one row of k per batch entry. batched: the model's outputs begin with a batch dimension.
func classify(r *infer.Request, resp *infer.Response, batched bool) error {
	for i := range r.Outputs {
		want := &r.Outputs[i]
		if want.Classification == 0 {
			continue
		}
		t := resp.Output(want.Name)
		if t == nil {
			continue
		}
		data, shape, err := classes(t, int(want.Classification), batched, r.Served.Labels(want.Name))
		if err != nil {
			return err
		}
		t.Release()
		t.DataType, t.Shape, t.Data = tensor.Bytes, shape, data
	}
	return nil
}

func classes(t *tensor.Tensor, k int, batched bool, labels []string) (data []byte, shape []int64, err error) {
	rows := 1
	if batched && len(t.Shape) > 0 {
		rows = int(t.Shape[0])
		shape = append(shape, t.Shape[0])
	}
	size := t.DataType.Size()
	n, err := tensor.Elements(t.Shape)
	if err != nil || size > 0 && n*int64(size) != int64(len(t.Data)) {
		return nil, nil, errOutputSize(t)
	}
	value, write := numbers(t.DataType)
	if value == nil {
		return nil, nil, status.Errorf(status.InvalidArg,
			"class result not available for output due to unsupported type '%s'", t.DataType)
	}
	per := 0
	if rows > 0 {
		per = int(n) / rows
	}
	k = min(k, per)
	shape = append(shape, int64(k))
	order := make([]int, per)
	var text []byte
	for row := range rows {
		b := t.Data[row*per*size:]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return compareDown(value(b[i*size:]), value(b[j*size:])) })
		for _, i := range order[:k] {
			text = write(text[:0], b[i*size:])
			text = append(text, ':')
			text = strconv.AppendInt(text, int64(i), 10)
			if i < len(labels) && labels[i] != "" {
				text = append(text, ':')
				text = append(text, labels[i]...)
			}
			data = tensor.AppendBytesElement(data, text)
		}
	}
	return data, shape, nil
}

// compareDown orders high values first and NaN last.
func compareDown(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	case a == b:
		return 0
	case math.IsNaN(a) && !math.IsNaN(b):
		return 1
	case math.IsNaN(b) && !math.IsNaN(a):
		return -1
	}
	return 0
}

// numbers returns how to read an element for comparing and how to write it, nil for types that are not numbers.
func numbers(dt tensor.DataType) (value func([]byte) float64, write func(dst, b []byte) []byte) {
	le := binary.LittleEndian
	signed := func(read func([]byte) int64) (func([]byte) float64, func(dst, b []byte) []byte) {
		return func(b []byte) float64 { return float64(read(b)) },
			func(dst, b []byte) []byte { return strconv.AppendInt(dst, read(b), 10) }
	}
	unsigned := func(read func([]byte) uint64) (func([]byte) float64, func(dst, b []byte) []byte) {
		return func(b []byte) float64 { return float64(read(b)) },
			func(dst, b []byte) []byte { return strconv.AppendUint(dst, read(b), 10) }
	}
	fixed := func(read func([]byte) float64) (func([]byte) float64, func(dst, b []byte) []byte) {
		return read, func(dst, b []byte) []byte { return strconv.AppendFloat(dst, read(b), 'f', 6, 64) }
	}
	switch dt {
	case tensor.Uint8:
		return unsigned(func(b []byte) uint64 { return uint64(b[0]) })
	case tensor.Uint16:
		return unsigned(func(b []byte) uint64 { return uint64(le.Uint16(b)) })
	case tensor.Uint32:
		return unsigned(func(b []byte) uint64 { return uint64(le.Uint32(b)) })
	case tensor.Uint64:
		return unsigned(func(b []byte) uint64 { return le.Uint64(b) })
	case tensor.Int8:
		return signed(func(b []byte) int64 { return int64(int8(b[0])) })
	case tensor.Int16:
		return signed(func(b []byte) int64 { return int64(int16(le.Uint16(b))) })
	case tensor.Int32:
		return signed(func(b []byte) int64 { return int64(int32(le.Uint32(b))) })
	case tensor.Int64:
		return signed(func(b []byte) int64 { return int64(le.Uint64(b)) })
	case tensor.FP32:
		return fixed(func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) })
	case tensor.FP64:
		return fixed(func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) })
	}
	return nil, nil
}
