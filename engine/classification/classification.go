package classification

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Apply replaces the outputs of resp that r requests as classes. After an error the outputs must still be released.
// Errors: InvalidArg for types without classes, Internal for an output whose data and shape do not fit.
func Apply(r *infer.Request, resp *infer.Response) error {
	for i := range r.Outputs {
		want := &r.Outputs[i]
		if want.Classification == 0 {
			continue
		}
		t := resp.Output(want.Name)
		if t == nil {
			continue
		}
		if err := toClasses(t, int64(want.Classification), r.Served.Batched(), r.Served.Labels(want.Name)); err != nil {
			return err
		}
	}
	return nil
}

// toClasses replaces t's values by the k highest of each batch row, highest first, as BYTES "value:index" or
// "value:index:label". It releases t's memory.
func toClasses(t *tensor.Tensor, k int64, batched bool, labels []string) error {
	value := reader(t.DataType)
	if value == nil {
		return status.Errorf(status.InvalidArg,
			"class result not available for output due to unsupported type '%s'", t.DataType)
	}
	elements, err := tensor.Elements(t.Shape)
	if err != nil {
		return err
	}
	size := int64(t.DataType.Size())
	if elements*size != int64(len(t.Data)) {
		return status.Errorf(status.Internal, "output '%s' of shape %s has %d bytes, want %d",
			t.Name, tensor.FormatShape(t.Shape), len(t.Data), elements*size)
	}
	rows, per := int64(1), elements
	if batched && len(t.Shape) > 0 {
		rows = t.Shape[0]
		per = elements / max(rows, 1)
	}
	k = min(k, per)
	var out []byte
	for row := range rows {
		data := t.Data[row*per*size : (row+1)*per*size]
		for _, i := range top(int(k), int(per), order(t.DataType, value, data)) {
			out = tensor.AppendBytesElement(out, class(t.DataType, data, i, labels))
		}
	}
	name := t.Name
	t.Release()
	*t = tensor.Tensor{Name: name, DataType: tensor.Bytes, Data: out, Shape: []int64{k}}
	if batched {
		t.Shape = []int64{rows, k}
	}
	return nil
}

// order returns a function that compares two elements of data, the higher one first, NaN last. A float64 does not tell
// all 64-bit integers apart.
func order(dt tensor.DataType, value func([]byte, int) float64, data []byte) func(a, b int) int {
	le := binary.LittleEndian
	switch dt {
	case tensor.Int64:
		return func(a, b int) int { return cmp.Compare(int64(le.Uint64(data[8*b:])), int64(le.Uint64(data[8*a:]))) }
	case tensor.Uint64:
		return func(a, b int) int { return cmp.Compare(le.Uint64(data[8*b:]), le.Uint64(data[8*a:])) }
	}
	return func(a, b int) int { return descending(value(data, a), value(data, b)) }
}

// top returns the indices of the first k of n values in the order of compare; equal values are in the order of their
// indices.
func top(k, n int, compare func(a, b int) int) []int {
	if k > 64 {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, compare)
		return order[:k]
	}
	best := make([]int, 0, k+1)
	for i := range n {
		if len(best) == k && (k == 0 || compare(best[k-1], i) <= 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, i, func(b, i int) int {
			if compare(b, i) <= 0 {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, i)
		best = best[:min(len(best), k)]
	}
	return best
}

// descending orders values from high to low, NaN last.
func descending(a, b float64) int {
	switch an, bn := math.IsNaN(a), math.IsNaN(b); {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	}
	return cmp.Compare(b, a)
}

// class returns element i of data as "value:index[:label]".
func class(dt tensor.DataType, data []byte, i int, labels []string) string {
	b := appendValue(nil, dt, data, i)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(i), 10)
	if i < len(labels) && labels[i] != "" {
		b = append(b, ':')
		b = append(b, labels[i]...)
	}
	return string(b)
}

// appendValue appends a number like C's "%f" or "%d".
func appendValue(b []byte, dt tensor.DataType, data []byte, i int) []byte {
	le := binary.LittleEndian
	switch dt {
	case tensor.Int64:
		return strconv.AppendInt(b, int64(le.Uint64(data[8*i:])), 10)
	case tensor.Uint64:
		return strconv.AppendUint(b, le.Uint64(data[8*i:]), 10)
	case tensor.FP32, tensor.FP64:
		switch v := reader(dt)(data, i); {
		case math.IsNaN(v):
			return append(b, "nan"...)
		case math.IsInf(v, 1):
			return append(b, "inf"...)
		case math.IsInf(v, -1):
			return append(b, "-inf"...)
		default:
			return strconv.AppendFloat(b, v, 'f', 6, 64)
		}
	}
	return strconv.AppendInt(b, int64(reader(dt)(data, i)), 10)
}

// reader returns a function that reads an element for comparison; nil for types without classes.
func reader(dt tensor.DataType) func(data []byte, i int) float64 {
	le := binary.LittleEndian
	switch dt {
	case tensor.Uint8:
		return func(d []byte, i int) float64 { return float64(d[i]) }
	case tensor.Int8:
		return func(d []byte, i int) float64 { return float64(int8(d[i])) }
	case tensor.Uint16:
		return func(d []byte, i int) float64 { return float64(le.Uint16(d[2*i:])) }
	case tensor.Int16:
		return func(d []byte, i int) float64 { return float64(int16(le.Uint16(d[2*i:]))) }
	case tensor.Uint32:
		return func(d []byte, i int) float64 { return float64(le.Uint32(d[4*i:])) }
	case tensor.Int32:
		return func(d []byte, i int) float64 { return float64(int32(le.Uint32(d[4*i:]))) }
	case tensor.Uint64:
		return func(d []byte, i int) float64 { return float64(le.Uint64(d[8*i:])) }
	case tensor.Int64:
		return func(d []byte, i int) float64 { return float64(int64(le.Uint64(d[8*i:]))) }
	case tensor.FP32:
		return func(d []byte, i int) float64 { return float64(math.Float32frombits(le.Uint32(d[4*i:]))) }
	case tensor.FP64:
		return func(d []byte, i int) float64 { return math.Float64frombits(le.Uint64(d[8*i:])) }
	}
	return nil
}
