package compat

import (
	"encoding/base64"
	"slices"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Models is the body of GET /v1/models: the names of the models that are ready.
func Models(index []*inferencepb.RepositoryIndexResponse_ModelIndex) []byte {
	names := []string{}
	for _, m := range index {
		if m.GetState() == "READY" && !slices.Contains(names, m.GetName()) {
			names = append(names, m.GetName())
		}
	}
	return tensorjson.Object("models", names)
}

// Model is the body of GET /v1/models/<name>[/versions/<version>]: the states of the model's versions, or of the one.
// Errors: NotFound.
func Model(name, version string, index []*inferencepb.RepositoryIndexResponse_ModelIndex) ([]byte, error) {
	ready := false
	versions := slices.DeleteFunc(slices.Clone(index), func(m *inferencepb.RepositoryIndexResponse_ModelIndex) bool {
		other := m.GetName() != name || m.GetVersion() == "" || version != "" && m.GetVersion() != version
		ready = ready || !other && m.GetState() == "READY"
		return other
	})
	if len(versions) == 0 {
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name)
	}
	return tensorjson.Object("name", name, "ready", ready,
		"model_version_status", tensorjson.Array(versions, versionStatus)), nil
}

// versionStatus is a version's state in TensorFlow Serving's words.
func versionStatus(m *inferencepb.RepositoryIndexResponse_ModelIndex) tensorjson.JSON {
	state, code := "START", "OK"
	switch m.GetState() {
	case "READY":
		state = "AVAILABLE"
	case "LOADING", "UNLOADING":
		state = m.GetState()
	case "UNAVAILABLE":
		state = "END"
		if m.GetReason() != "unloaded" {
			code = "UNKNOWN"
		}
	}
	return tensorjson.Object("version", m.GetVersion(), "state", state,
		"status", tensorjson.Object("error_code", code, "error_message", m.GetReason()))
}

// predictInput is what was read of an input of a predict request.
type predictInput struct {
	spec  *inferencepb.ModelInput
	rows  int64   // 1 in the column form
	shape []int64 // of one row, or of all in the column form
	data  []byte
}

// predictParser reads a predict request.
type predictParser struct {
	s      tensorjson.Scanner
	inputs []predictInput
	rows   int64
}

// ParsePredict fills r from the body of a predict request: "instances", a list with the values of one row each, or
// "inputs", the whole tensors. If a model has several inputs, the values are objects by their names. rows is the number
// of instances, -1 for "inputs". Errors: InvalidArg.
func ParsePredict(r *infer.Request, cfg *inferencepb.ModelConfig, doc []byte) (rows int64, err error) {
	p := predictParser{inputs: make([]predictInput, len(cfg.GetInput()))}
	for i, spec := range cfg.GetInput() {
		p.inputs[i].spec = spec
	}
	if err := p.s.Read(doc, p.members); err != nil {
		return 0, err
	}
	for i := range p.inputs {
		in := &p.inputs[i]
		if in.rows == 0 {
			continue // it is optional, or the engine reports that it is missing
		}
		shape := in.shape
		if p.rows >= 0 {
			if in.rows != p.rows {
				return 0, status.Errorf(status.InvalidArg, "input '%s' is in %d of %d instances",
					in.spec.GetName(), in.rows, p.rows)
			}
			shape = append([]int64{p.rows}, shape...)
		}
		r.Inputs = append(r.Inputs, tensor.Tensor{
			Name: in.spec.GetName(), DataType: tensor.DataType(in.spec.GetDataType()), Shape: shape, Data: in.data,
		})
	}
	return p.rows, nil
}

func (p *predictParser) members() error {
	forms := []string{}
	err := p.s.Object(func(key []byte) (err error) {
		switch string(key) {
		case "instances":
			forms = append(forms, "instances")
			if p.s.Peek() != '[' {
				return unable("instances", tensorjson.ErrNotArray)
			}
			err = p.s.Array(p.instance)
		case "inputs":
			forms = append(forms, "inputs")
			err = p.values(0)
			p.rows = -1
		case "signature_name":
			var name string
			if name, err = p.s.String(); err != nil {
				return unable("signature_name", err)
			}
			if name != "" && name != "serving_default" {
				err = status.Errorf(status.InvalidArg, "Serving signature name: \"%s\" not found in signature def",
					tensorjson.Printable(name))
			}
		default:
			err = p.s.Skip()
		}
		return err
	})
	if err == nil && len(forms) != 1 {
		err = status.New(status.InvalidArg, `a predict request must have one of "instances" and "inputs"`)
	}
	return err
}

// instance reads one row.
func (p *predictParser) instance() error {
	err := p.values(p.rows)
	p.rows++
	return err
}

// values reads one row, or the whole in the column form: the value of the only input, or an object of values.
func (p *predictParser) values(row int64) error {
	if p.s.Peek() != '{' || len(p.inputs) == 1 && p.s.HasFirstKey("b64") {
		if len(p.inputs) != 1 {
			return status.Errorf(status.InvalidArg,
				"the model has %d inputs: an object with their names is expected", len(p.inputs))
		}
		return p.value(&p.inputs[0], row)
	}
	return p.s.Object(func(key []byte) error {
		i := slices.IndexFunc(p.inputs, func(in predictInput) bool { return in.spec.GetName() == string(key) })
		if i < 0 {
			return status.Errorf(status.InvalidArg, "the model has no input '%s'", tensorjson.Printable(key))
		}
		return p.value(&p.inputs[i], row)
	})
}

// value adds a row to an input, which has one for each row before: a scalar or rectangular lists.
func (p *predictParser) value(in *predictInput, row int64) error {
	name, dt := in.spec.GetName(), tensor.DataType(in.spec.GetDataType())
	if err := tensorjson.CheckInput(dt, name); err != nil {
		return err
	}
	if in.rows > row {
		return status.Errorf(status.InvalidArg, "input '%s' is given twice", name)
	}
	n, shape, err := p.s.Measure()
	if err != nil {
		return err
	}
	if len(shape) == 1 && shape[0] < 0 {
		return status.Errorf(status.InvalidArg, "input '%s': the lists are not rectangular", name)
	}
	if in.rows > 0 && !slices.Equal(shape, in.shape) {
		return status.Errorf(status.InvalidArg, "input '%s': the instances have different shapes, %s and %s", name,
			tensor.FormatShape(in.shape), tensor.FormatShape(shape))
	}
	in.shape = shape
	in.rows++
	if dt == tensor.Bytes {
		return p.strings(in)
	}
	had, size := len(in.data), int(n)*dt.Size()
	in.data = slices.Grow(in.data, size)[:had+size]
	_, err = p.s.Values(dt, in.data[had:])
	return err
}

// strings adds strings, or {"b64": …} for bytes that are no text.
func (p *predictParser) strings(in *predictInput) error {
	switch p.s.Peek() {
	case '[':
		return p.s.Array(func() error { return p.strings(in) })
	case '{':
		return p.base64(in)
	}
	text, err := p.s.Text()
	in.data = tensor.AppendBytesElement(in.data, text)
	return unable("data", err)
}

// base64 adds the bytes of {"b64": …}, which may have no other members.
func (p *predictParser) base64(in *predictInput) error {
	members := 0
	err := p.s.Object(func(key []byte) error {
		if members++; string(key) != "b64" || members > 1 {
			return unable("data", tensorjson.ErrNotString)
		}
		text, err := p.s.Text()
		if err != nil {
			return unable("b64", err)
		}
		plain, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return status.Errorf(status.InvalidArg, "input '%s': b64 is not base64: %w", in.spec.GetName(), err)
		}
		in.data = tensor.AppendBytesElement(in.data, plain)
		return nil
	})
	if err == nil && members == 0 {
		err = unable("data", tensorjson.ErrNotString)
	}
	return err
}

// unable says which member an error is about.
func unable(member string, err error) error {
	if err == nil {
		return nil
	}
	return status.New(status.InvalidArg, "Unable to parse '"+member+"': "+err.Error())
}

// AppendPredictions appends the body of a predict reply: {"predictions": rows} for instances, {"outputs": tensors} for
// inputs, for which rows is -1. If a model has several outputs, the values are objects by their names. Errors:
// InvalidArg if the outputs are not that many rows, and as tensorjson.Builder.Elements.
func AppendPredictions(w *tensorjson.Builder, resp *infer.Response, rows int64) error {
	outs := make([]tensorjson.ListWriter, len(resp.Outputs))
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		var err error
		if outs[i], err = tensorjson.NewListWriter(t); err != nil {
			return err
		}
		if rows >= 0 && (len(t.Shape) == 0 || t.Shape[0] != rows) {
			return status.Errorf(status.InvalidArg, "output '%s' has the shape %s, which are not %d predictions; "+
				"send \"inputs\" in place of \"instances\"", t.Name, tensor.FormatShape(t.Shape), rows)
		}
	}
	if rows < 0 {
		w.Raw(`{"outputs":`)
		if err := appendRow(w, outs, 0); err != nil {
			return err
		}
		w.Raw("}")
		return nil
	}
	w.Raw(`{"predictions":[`)
	for i := range rows {
		if i > 0 {
			w.Raw(",")
		}
		if err := appendRow(w, outs, 1); err != nil {
			return err
		}
	}
	w.Raw("]}")
	return nil
}

// appendRow appends the next value of each output, without its first skip dimensions.
func appendRow(w *tensorjson.Builder, outs []tensorjson.ListWriter, skip int) error {
	if len(outs) == 1 {
		return outs[0].Write(w, outs[0].Tensor.Shape[skip:])
	}
	w.Raw("{")
	for i := range outs {
		t := outs[i].Tensor
		if i > 0 {
			w.Raw(",")
		}
		w.B = append(tensorjson.AppendString(w.B, t.Name), ':')
		if err := outs[i].Write(w, t.Shape[skip:]); err != nil {
			return err
		}
	}
	w.Raw("}")
	return nil
}
