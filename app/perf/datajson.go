package perf

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// ParseData reads perf_analyzer's JSON of inputs. "data" is an array of steps, or of streams of steps. A step has
// tensors by name, each an array of values, {"b64": bytes} or {"content": either, "shape": […]}. "validation_data" has
// the same form for outputs. A step may have "timestamp": [milliseconds] for a fixed schedule. Format: perf_analyzer's
// input data.
func ParseData(b []byte, m *Model, o InputOptions) (*Data, error) {
	doc, err := parseDocument(b)
	if err != nil {
		return nil, err
	}
	if err := o.CheckShapes(m); err != nil {
		return nil, err
	}
	p := dataParser{m: m, o: o}
	streams, validation := [][]json.RawMessage{doc.Data}, [][]json.RawMessage{doc.Validation}
	if isArray(doc.Data[0]) {
		streams, validation = make([][]json.RawMessage, len(doc.Data)), make([][]json.RawMessage, len(doc.Data))
		for i := range doc.Data {
			if err := json.Unmarshal(doc.Data[i], &streams[i]); err != nil || len(streams[i]) == 0 {
				return nil, fmt.Errorf("stream %d: is no array of steps, as the first one is, or an empty one", i)
			}
			if doc.Validation == nil {
				continue
			}
			if err := json.Unmarshal(doc.Validation[i], &validation[i]); err != nil ||
				len(validation[i]) != len(streams[i]) {
				return nil, fmt.Errorf(`stream %d: "validation_data" must have an array with a step for each of the %d`+
					` in "data"`, i, len(streams[i]))
			}
		}
	}
	d := &Data{Given: true}
	for i, steps := range streams {
		var out []Step
		for k := range steps {
			var want json.RawMessage
			if validation[i] != nil {
				want = validation[i][k]
			}
			s, err := p.step(steps[k], want)
			if err != nil {
				return nil, fmt.Errorf("stream %d, step %d: %w", i, k, err)
			}
			out = append(out, s)
		}
		d.Streams = append(d.Streams, out)
	}
	return d, nil
}

// document is a file of inputs.
type document struct {
	Data       []json.RawMessage `json:"data"`
	Validation []json.RawMessage `json:"validation_data"`
}

// parseDocument checks what does not depend on the model.
func parseDocument(b []byte) (*document, error) {
	var doc document
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("the input data is no JSON of the form {\"data\": […]}: %w", err)
	}
	if len(doc.Data) == 0 {
		return nil, fmt.Errorf(`the input data has no "data", or an empty one`)
	}
	if doc.Validation != nil && len(doc.Validation) != len(doc.Data) {
		return nil, fmt.Errorf(`"validation_data" has %d entries and "data" %d; there must be one for each`,
			len(doc.Validation), len(doc.Data))
	}
	return &doc, nil
}

func isArray(b json.RawMessage) bool { return len(b) > 0 && b[0] == '[' } // Unmarshal removes leading spaces

type dataParser struct {
	m *Model
	o InputOptions
}

func (p *dataParser) step(in, want json.RawMessage) (Step, error) {
	var s Step
	var tensors map[string]json.RawMessage
	if err := json.Unmarshal(in, &tensors); err != nil {
		return s, fmt.Errorf("want an object of tensors: %w", err)
	}
	if at, ok := tensors["timestamp"]; ok && !slices.ContainsFunc(p.m.Inputs,
		func(io IO) bool { return io.Name == "timestamp" }) {
		var ms []*float64
		if err := json.Unmarshal(at, &ms); err != nil || len(ms) != 1 || ms[0] == nil || *ms[0] < 0 || *ms[0] > 1e10 {
			return s, fmt.Errorf("timestamp: want an array of one number of milliseconds, not %s", at)
		}
		s.At, s.Timed = *ms[0], true
		delete(tensors, "timestamp")
	}
	var err error
	if s.Inputs, err = p.tensors(tensors, p.m.Inputs, true); err != nil {
		return s, err
	}
	if want == nil {
		return s, nil
	}
	tensors = nil
	if err := json.Unmarshal(want, &tensors); err != nil {
		return s, fmt.Errorf("validation_data: want an object of tensors: %w", err)
	}
	if s.Want, err = p.tensors(tensors, p.m.Outputs, false); err != nil {
		return s, fmt.Errorf("validation_data: %w", err)
	}
	return s, nil
}

// tensors reads the tensors of a step in the model's order.
func (p *dataParser) tensors(given map[string]json.RawMessage, list []IO, need bool) ([]client.Tensor, error) {
	var out []client.Tensor
	for _, io := range list {
		raw, ok := given[io.Name]
		if !ok {
			if need && !io.Optional {
				return nil, fmt.Errorf("the input %q is missing", io.Name)
			}
			continue
		}
		delete(given, io.Name)
		t, err := p.tensor(raw, io, need)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", io.Name, err)
		}
		out = append(out, t)
	}
	delete(given, "model") // perf_analyzer allows it
	for name := range given {
		return nil, fmt.Errorf("model %q has no tensor %q there", p.m.Name, name)
	}
	return out, nil
}

func (p *dataParser) tensor(raw json.RawMessage, io IO, input bool) (client.Tensor, error) {
	t := client.Tensor{Name: io.Name, DataType: io.DataType}
	var form struct {
		B64     *string         `json:"b64"`
		Content json.RawMessage `json:"content"`
		Shape   []int64         `json:"shape"`
	}
	content := raw
	if !isArray(raw) {
		if err := json.Unmarshal(raw, &form); err != nil {
			return t, fmt.Errorf("want an array of values, or an object with b64, or with content and shape: %w", err)
		}
		content = form.Content
	}
	if len(content) > 0 && !isArray(content) {
		if err := json.Unmarshal(content, &form); err != nil {
			return t, fmt.Errorf("content: want an array of values or an object with b64: %w", err)
		}
	}
	if err := p.shape(&t, io, form.Shape, content, input); err != nil {
		return t, err
	}
	switch {
	case form.B64 != nil:
		var err error
		if t.Data, err = base64.StdEncoding.DecodeString(*form.B64); err != nil {
			return t, fmt.Errorf("b64: %w", err)
		}
		return t, whole(&t)
	case isArray(content):
		return client.FromJSON(io.Name, io.DataType, t.Shape, content)
	}
	return t, fmt.Errorf("there is neither an array of values nor b64")
}

// shape sets the tensor's shape: the one in the JSON, the one given for the input, or the model's. A vector of variable
// size has as many elements as there are values.
func (p *dataParser) shape(t *client.Tensor, io IO, own []int64, content json.RawMessage, input bool) (err error) {
	switch {
	case own != nil:
		t.Shape = own
		return fits(io, own)
	case input && p.o.Shapes[io.Name] != nil:
		t.Shape, err = p.o.shapeOf(io)
		return err
	}
	t.Shape = io.Shape
	if !slices.ContainsFunc(io.Shape, func(d int64) bool { return d < 0 }) {
		return nil
	}
	var values []json.RawMessage
	if len(io.Shape) == 1 && isArray(content) && json.Unmarshal(content, &values) == nil {
		t.Shape = []int64{int64(len(values))}
		return nil
	}
	err = fmt.Errorf(`the model's shape %v is free; give "shape" beside "content"`, io.Shape)
	if input {
		err = fmt.Errorf("%w, or --shape %s:d,d,…", err, io.Name)
	}
	return err
}

// Append adds more data. If both have one stream, the steps are added to it; otherwise the streams are added.
func (d *Data) Append(more *Data) {
	if len(d.Streams) == 1 && len(more.Streams) == 1 {
		d.Streams[0] = append(d.Streams[0], more.Streams[0]...)
		return
	}
	d.Streams = append(d.Streams, more.Streams...)
}

// batch joins the steps of several rows into one request. A model without a batch dimension takes one row unchanged.
func batch(rows []Step, batched bool) (Step, error) {
	if !batched {
		return rows[0], nil
	}
	var s Step
	var err error
	if s.Inputs, err = join(rows, func(r *Step) []client.Tensor { return r.Inputs }); err != nil {
		return s, err
	}
	s.Want, err = join(rows, func(r *Step) []client.Tensor { return r.Want })
	return s, err
}

func join(rows []Step, of func(*Step) []client.Tensor) ([]client.Tensor, error) {
	var out []client.Tensor
	for i, first := range of(&rows[0]) {
		t := client.Tensor{Name: first.Name, DataType: first.DataType,
			Shape: append([]int64{int64(len(rows))}, first.Shape...)}
		if len(rows) == 1 {
			t.Data = first.Data
			out = append(out, t)
			continue
		}
		for k := range rows {
			list := of(&rows[k])
			if i >= len(list) || list[i].Name != t.Name || !slices.Equal(list[i].Shape, first.Shape) ||
				len(list) != len(of(&rows[0])) {
				return nil, fmt.Errorf("rows of one batch have different tensors or shapes (%q); use -b 1", t.Name)
			}
			t.Data = append(t.Data, list[i].Data...)
		}
		out = append(out, t)
	}
	return out, nil
}

// check compares a response with the expected outputs, which have the batch dimension.
func check(got *client.Response, want []client.Tensor) error {
	for i := range want {
		w := &want[i]
		out := got.Output(w.Name)
		switch {
		case out == nil:
			return fmt.Errorf("the response has no output %q, which validation_data names", w.Name)
		case out.DataType != w.DataType || !sameElements(out.Shape, w.Shape) || !slices.Equal(out.Data, w.Data):
			return fmt.Errorf("output %q (%v%v) is not what validation_data says (%v%v)", w.Name, out.DataType,
				out.Shape, w.DataType, w.Shape)
		}
	}
	return nil
}

func sameElements(a, b []int64) bool {
	n, err := tensor.Elements(a)
	m, err2 := tensor.Elements(b)
	return err == nil && err2 == nil && n == m
}
