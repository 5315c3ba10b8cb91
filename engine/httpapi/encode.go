package httpapi

import (
	"encoding/binary"
	"math"
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// reply says how the outputs of a request are to be sent.
type reply struct {
	// binary is the default for outputs that the request does not list.
	binary bool
	// big takes the large binary outputs; nil: they are copied like the others.
	big *bigParts
}

// encode writes a response: the JSON part, then the binary outputs in order. jsonLen is the length of the JSON part
// if there are binary outputs, -1 if there are none. On an error what was written is of no use.
func (o reply) encode(w *builder, r *infer.Request, resp *infer.Response) (jsonLen int, err error) {
	w.room(256 + len(r.ID)*6)
	b := append(w.b, '{')
	if r.ID != "" {
		b = append(b, `"id":`...)
		b = appendString(b, r.ID)
		b = append(b, ',')
	}
	b = append(b, `"model_name":`...)
	b = appendString(b, r.Served.Name())
	b = append(b, `,"model_version":"`...)
	b = append(b, r.Served.VersionText()...)
	b = append(b, '"')
	if len(resp.Parameters) > 0 {
		b = append(b, `,"parameters":`...)
		b = appendParameters(b, resp.Parameters)
	}
	w.b = append(b, `,"outputs":[`...)

	anyBinary, written := false, 0
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		asBinary, wanted, shared := o.wish(r, t.Name)
		if !wanted {
			continue
		}
		if written > 0 {
			w.b = append(w.b, ',')
		}
		written++
		anyBinary = anyBinary || asBinary
		if shared {
			encodeHead(w, t)
			w.b = append(w.b, '}')
			continue
		}
		if err := encodeOutput(w, t, asBinary); err != nil {
			return 0, err
		}
	}
	w.room(2)
	w.b = append(w.b, ']', '}')
	if !anyBinary {
		return -1, nil
	}
	jsonLen = len(w.b)
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		if asBinary, wanted, _ := o.wish(r, t.Name); wanted && asBinary {
			if o.big != nil && len(t.Data) >= bigOutput {
				o.big.add(len(w.b), t)
				continue
			}
			w.room(len(t.Data))
			w.b = append(w.b, t.Data...)
		}
	}
	return jsonLen, nil
}

// wish tells whether an output is wanted, and as what. The bytes of a shared one are where the client wants them already.
func (o reply) wish(r *infer.Request, output string) (asBinary, wanted, shared bool) {
	if len(r.Outputs) == 0 {
		return o.binary, true, false
	}
	for i := range r.Outputs {
		if out := &r.Outputs[i]; out.Name == output {
			return out.Binary, true, out.Shared != nil
		}
	}
	return false, false, false
}

// encodeHead writes an output up to its shape.
func encodeHead(w *builder, t *tensor.Tensor) {
	w.room(160 + len(t.Name)*6 + len(t.Shape)*21)
	b := append(w.b, `{"name":`...)
	b = appendString(b, t.Name)
	b = append(b, `,"datatype":"`...)
	b = append(b, t.DataType.String()...)
	b = append(b, `","shape":`...)
	w.b = appendShape(b, t.Shape)
}

func encodeOutput(w *builder, t *tensor.Tensor, asBinary bool) error {
	encodeHead(w, t)
	if asBinary {
		b := append(w.b, `,"parameters":{"binary_data_size":`...)
		b = strconv.AppendInt(b, int64(len(t.Data)), 10)
		w.b = append(b, '}', '}')
		return nil
	}
	w.b = append(w.b, `,"data":[`...)
	if err := encodeData(w, t); err != nil {
		return err
	}
	w.room(2)
	w.b = append(w.b, ']', '}')
	return nil
}

// encodeData writes a tensor's elements as JSON values, flat.
func encodeData(w *builder, t *tensor.Tensor) error {
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
		encodeStrings(w, t.Data)
		return nil
	}
	size := t.DataType.Size()
	if size == 0 || int64(len(t.Data)) != n*int64(size) {
		return errOutputSize(t)
	}
	const chunk, width = 64, 26 // elements; bytes of the longest one and its comma
	for data := t.Data; len(data) > 0; {
		some := min(len(data), chunk*size)
		w.room(some / size * width)
		w.b = appendElements(w.b, t.DataType, data[:some])
		data = data[some:]
	}
	if n > 0 {
		w.b = w.b[:len(w.b)-1] // the last comma
	}
	return nil
}

func errOutputSize(t *tensor.Tensor) error {
	return status.Errorf(status.Internal, "output tensor shape does not match size of output for '%s'", t.Name)
}

// appendElements writes elements, a comma behind each.
func appendElements(b []byte, dt tensor.DataType, data []byte) []byte {
	switch dt {
	case tensor.FP32:
		for ; len(data) >= 4; data = data[4:] {
			f := math.Float32frombits(binary.LittleEndian.Uint32(data))
			b = append(appendDouble(b, float64(f)), ',')
		}
	case tensor.FP64:
		for ; len(data) >= 8; data = data[8:] {
			b = append(appendDouble(b, math.Float64frombits(binary.LittleEndian.Uint64(data))), ',')
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

func encodeStrings(w *builder, data []byte) {
	for i, e := range tensor.BytesElements(data) {
		w.room(len(e) + len(e)/8 + 16)
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = appendString(w.b, e)
	}
}

func appendParameters(b []byte, params []infer.Parameter) []byte {
	b = append(b, '{')
	for i := range params {
		q := &params[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, q.Name)
		b = append(b, ':')
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
		return appendDouble(b, q.Float)
	case infer.StringParameter:
		return appendString(b, q.Text)
	}
	return append(b, "null"...)
}
