package trace

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"nereid/engine/tensor"
)

// appendJSON appends a root and its children as elements of Triton's trace array, separated by commas. For each trace
// there is an element with its model, one with its time stamps (nanoseconds since 1970) and one per tensor.
func appendJSON(b []byte, root *Trace) []byte {
	b = appendOne(b, root)
	for _, c := range root.children {
		b = append(b, ',')
		b = appendOne(b, c)
	}
	return b
}

func appendOne(b []byte, tr *Trace) []byte {
	b = appendID(b, tr)
	b = append(b, `,"model_name":`...)
	b = appendText(b, tr.model)
	if tr.version >= 0 {
		b = append(b, `,"model_version":`...)
		b = strconv.AppendInt(b, tr.version, 10)
	}
	if tr.request != "" {
		b = append(b, `,"request_id":`...)
		b = appendText(b, tr.request)
	}
	if tr.parent != nil {
		b = append(b, `,"parent_id":`...)
		b = strconv.AppendUint(b, tr.parent.id, 10)
	}
	b = append(b, '}')
	if tr.setting.Level&Timestamps != 0 {
		b = append(b, ',')
		b = appendID(b, tr)
		b = append(b, `,"timestamps":[`...)
		for i, m := range tr.marks {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(append(b, `{"name":`...), m.name)
			b = append(b, `,"ns":`...)
			b = strconv.AppendInt(b, m.at.Time().UnixNano(), 10)
			b = append(b, '}')
		}
		b = append(b, `]}`...)
	}
	for i := range tr.tensors {
		b = append(b, ',')
		b = appendActivity(b, tr, &tr.tensors[i])
	}
	return b
}

func appendID(b []byte, tr *Trace) []byte {
	b = append(b, `{"id":`...)
	return strconv.AppendUint(b, tr.id, 10)
}

func appendActivity(b []byte, tr *Trace, a *activity) []byte {
	b = appendID(b, tr)
	b = append(append(append(b, `,"activity":"`...), a.name...), `","tensor":{"name":`...)
	b = appendText(b, a.tensor.Name)
	b = append(b, `,"data":`...)
	b = appendText(b, elements(&a.tensor))
	b = append(b, `,"shape":"`...)
	for i, d := range a.tensor.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	b = append(b, `","dtype":"`...)
	b = append(b, a.tensor.DataType.String()...)
	return append(b, `"}}`...)
}

// appendText appends a JSON string. What is not UTF-8 is replaced.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil { // impossible for a string
		return append(b, `""`...)
	}
	return append(b, text...)
}

// elements formats a tensor's elements, separated by commas: numbers in decimal, BOOL as 0 and 1, BYTES quoted.
func elements(t *tensor.Tensor) string {
	var b []byte
	next := func() {
		if len(b) > 0 {
			b = append(b, ',')
		}
	}
	if t.DataType == tensor.Bytes {
		for data := t.Data; len(data) >= 4; {
			n := uint64(binary.LittleEndian.Uint32(data))
			if n > uint64(len(data)-4) {
				break
			}
			next()
			b = append(append(append(b, '"'), data[4:4+n]...), '"')
			data = data[4+n:]
		}
		return string(b)
	}
	size := t.DataType.Size()
	if size <= 0 {
		return ""
	}
	for i := 0; i+size <= len(t.Data); i += size {
		next()
		b = appendElement(b, t.DataType, t.Data[i:i+size])
	}
	return string(b)
}

func appendElement(b []byte, dt tensor.DataType, raw []byte) []byte {
	switch dt {
	case tensor.Bool, tensor.Uint8:
		return strconv.AppendUint(b, uint64(raw[0]), 10)
	case tensor.Uint16:
		return strconv.AppendUint(b, uint64(binary.LittleEndian.Uint16(raw)), 10)
	case tensor.Uint32:
		return strconv.AppendUint(b, uint64(binary.LittleEndian.Uint32(raw)), 10)
	case tensor.Uint64:
		return strconv.AppendUint(b, binary.LittleEndian.Uint64(raw), 10)
	case tensor.Int8:
		return strconv.AppendInt(b, int64(int8(raw[0])), 10)
	case tensor.Int16:
		return strconv.AppendInt(b, int64(int16(binary.LittleEndian.Uint16(raw))), 10)
	case tensor.Int32:
		return strconv.AppendInt(b, int64(int32(binary.LittleEndian.Uint32(raw))), 10)
	case tensor.Int64:
		return strconv.AppendInt(b, int64(binary.LittleEndian.Uint64(raw)), 10)
	case tensor.FP64:
		return strconv.AppendFloat(b, math.Float64frombits(binary.LittleEndian.Uint64(raw)), 'g', -1, 64)
	case tensor.FP32:
		return appendFloat32(b, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case tensor.BF16:
		return appendFloat32(b, math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw))<<16))
	case tensor.FP16:
		return appendFloat32(b, tensor.Float16(binary.LittleEndian.Uint16(raw)))
	}
	return b
}

func appendFloat32(b []byte, v float32) []byte {
	return strconv.AppendFloat(b, float64(v), 'g', -1, 32)
}
