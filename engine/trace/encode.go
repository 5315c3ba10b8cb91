package trace

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"

	"nereid/engine/tensor"
)

// The elements of Triton's trace array. Each trace has one with its model, one with its time stamps and one for each
// tensor.
type (
	modelElement struct {
		ID      uint64 `json:"id"`
		Model   string `json:"model_name"`
		Version *int64 `json:"model_version,omitempty"`
		Request string `json:"request_id,omitempty"`
		Parent  uint64 `json:"parent_id,omitempty"`
	}
	timesElement struct {
		ID    uint64      `json:"id"`
		Times []timestamp `json:"timestamps"`
	}
	timestamp struct {
		Name string `json:"name"`
		Ns   int64  `json:"ns"` // since 1970
	}
	tensorElement struct {
		ID       uint64     `json:"id"`
		Activity string     `json:"activity"`
		Tensor   tensorText `json:"tensor"`
	}
	tensorText struct {
		Name     string `json:"name"`
		Data     string `json:"data"`
		Shape    string `json:"shape"`
		DataType string `json:"dtype"`
	}
)

// appendJSON appends the elements of a root and its children, separated by commas.
func appendJSON(b []byte, root *Trace) ([]byte, error) {
	all := root.elements(nil)
	for _, c := range root.children {
		all = c.elements(all)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return b, err
	}
	return append(b, text[1:len(text)-1]...), nil
}

// elements appends the elements of one trace.
func (tr *Trace) elements(all []any) []any {
	m := modelElement{ID: tr.id, Model: valid(tr.model), Request: valid(tr.request)}
	if tr.version >= 0 {
		m.Version = &tr.version
	}
	if tr.parent != nil {
		m.Parent = tr.parent.id
	}
	all = append(all, m)
	if tr.setting.Level&Timestamps != 0 {
		times := make([]timestamp, 0, len(tr.marks))
		for _, m := range tr.marks {
			times = append(times, timestamp{valid(m.name), m.at.Time().UnixNano()})
		}
		all = append(all, timesElement{tr.id, times})
	}
	for i := range tr.tensors {
		t := &tr.tensors[i].tensor
		text := tensorText{valid(t.Name), valid(formatElements(t)), formatShape(t.Shape), t.DataType.String()}
		all = append(all, tensorElement{tr.id, tr.tensors[i].name, text})
	}
	return all
}

// valid replaces what is not UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func formatShape(shape []int64) string {
	var b []byte
	for _, d := range shape {
		b = append(strconv.AppendInt(b, d, 10), ',')
	}
	return strings.TrimSuffix(string(b), ",")
}

// formatElements formats a tensor's elements, separated by commas: numbers in decimal, BOOL as 0 and 1, BYTES quoted.
func formatElements(t *tensor.Tensor) string {
	var b []byte
	if t.DataType == tensor.Bytes {
		for _, element := range tensor.BytesElements(t.Data) {
			b = append(append(append(b, '"'), element...), `",`...)
		}
	} else if size := t.DataType.Size(); size > 0 {
		for data := t.Data; len(data) >= size; data = data[size:] {
			b = append(appendElement(b, t.DataType, data[:size]), ',')
		}
	}
	return string(b[:max(len(b)-1, 0)])
}

func appendElement(b []byte, dt tensor.DataType, raw []byte) []byte {
	var word [8]byte
	copy(word[:], raw)
	n, unused := binary.LittleEndian.Uint64(word[:]), 64-8*len(raw)
	switch dt {
	case tensor.Bool, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return strconv.AppendUint(b, n, 10)
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		return strconv.AppendInt(b, int64(n<<unused)>>unused, 10)
	case tensor.FP64:
		return strconv.AppendFloat(b, tensor.Float(dt, raw), 'g', -1, 64)
	}
	return strconv.AppendFloat(b, tensor.Float(dt, raw), 'g', -1, 32)
}
