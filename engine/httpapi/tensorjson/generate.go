package tensorjson

import (
	"errors"
	"math"
	"slices"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// maxGenerateParameters bounds the members of a generate request that are no inputs.
const maxGenerateParameters = 4096

// Generate fills r from a request of Triton's generate extension. "id" names the request, members with the name of an
// input of the model are its tensors, all others are parameters; "parameters" holds more of both. r must own doc's
// memory. After an error, which is InvalidArg, r must be released.
func (p *Parser) Generate(r *infer.Request, cfg *inferencepb.ModelConfig, doc []byte) error {
	p.r = r
	defer func() { p.r = nil }()
	return p.s.Read(doc, func() error {
		if p.s.Peek() != '{' {
			return ErrNoMembers
		}
		return p.generateMembers(cfg, true)
	})
}

// generateMembers reads the members of the request's object, or of its "parameters".
func (p *Parser) generateMembers(cfg *inferencepb.ModelConfig, top bool) error {
	var found seen
	return p.s.Object(func(key []byte) (err error) {
		i := slices.IndexFunc(cfg.GetInput(), func(in *inferencepb.ModelInput) bool {
			return in.GetName() == string(key)
		})
		isText := p.s.Peek() == '"'
		switch {
		case top && string(key) == "parameters":
			return p.generateParameters(cfg, i >= 0)
		case i >= 0:
			err = p.generateInput(cfg, cfg.GetInput()[i])
		case len(p.r.Parameters) == maxGenerateParameters:
			err = errTooMany("parameters")
		default:
			err = p.modelParameter(key)
		}
		if err == nil && top && string(key) == "id" {
			if err = found.once(seenID, "id"); err == nil {
				err = p.generateID(i >= 0, isText)
			}
		}
		return err
	})
}

// generateParameters reads the nested object of parameters. isInput: the model has an input of this name too.
func (p *Parser) generateParameters(cfg *inferencepb.ModelConfig, isInput bool) error {
	if isInput {
		return status.New(status.InvalidArg, "Keyword 'parameters' for nested schema also given as input tensor name")
	}
	if p.s.Peek() != '{' {
		return status.New(status.InvalidArg, "Expected JSON object for keyword: 'parameters': "+ErrNotObject.Error())
	}
	err := p.generateMembers(cfg, false)
	if err == nil || errors.As(err, new(syntaxError)) {
		return err
	}
	return status.Errorf(status.CodeOf(err), "Converting keyword: 'parameters': %w", err)
}

// generateID makes the member that was just read, the last input or the last parameter, the id of the request too.
func (p *Parser) generateID(isInput, isText bool) error {
	if !isText {
		return unable("id", ErrNotString)
	}
	if isInput {
		in := &p.r.Inputs[len(p.r.Inputs)-1]
		if in.DataType != tensor.Bytes {
			return unable("id", ErrNotString)
		}
		p.r.ID = string(in.Data[4:]) // behind its length
	} else {
		p.r.ID = p.r.Parameters[len(p.r.Parameters)-1].Text
	}
	return checkID(p.r.ID)
}

// generateInput reads the tensor of an input: a scalar, a list, or lists in lists, whose nesting is then the shape.
func (p *Parser) generateInput(cfg *inferencepb.ModelConfig, spec *inferencepb.ModelInput) error {
	if len(p.r.Inputs) == maxTensors {
		return errTooMany("inputs")
	}
	dt := tensor.DataType(spec.GetDataType())
	if err := CheckInput(dt, spec.GetName()); err != nil {
		return err
	}
	n, nested, err := p.s.Measure()
	if err != nil {
		return err
	}
	shape, ok := p.generateShape(cfg, spec, n, nested)
	if !ok {
		return status.New(status.InvalidArg,
			"The schema can not convert input '"+spec.GetName()+"' to tensor with proper shape")
	}
	t := tensor.Tensor{Name: spec.GetName(), DataType: dt, Shape: shape}
	switch {
	case dt == tensor.Bytes:
		t.Buf, err = p.strings(n, int(4*n)+64)
	case dt.Size() == 0 || n > math.MaxInt64/8:
		err = status.Errorf(status.InvalidArg, "input '%s' has unsupported datatype %s", t.Name, t.DataType)
	default:
		t.Buf, err = p.values(dt, n)
	}
	if err != nil {
		return err
	}
	t.Data = t.Buf.Bytes()
	p.r.Inputs = append(p.r.Inputs, t)
	return nil
}

// generateShape fits n values to the dims of an input. If the lists nest as deeply as the input's dims, with or
// without the batch, their lengths are the shape. Otherwise, as in Triton, the innermost variable dimension takes
// what the fixed dims leave, and the other variable ones are 1.
func (p *Parser) generateShape(cfg *inferencepb.ModelConfig, spec *inferencepb.ModelInput, n int64, nested []int64) (
	shape []int64, ok bool,
) {
	dims := spec.GetDims()
	batched := cfg.GetMaxBatchSize() > 0
	rank := len(dims)
	if batched {
		rank++
	}
	shape = p.r.Dims(rank)
	perRow := shape
	if batched {
		shape[0], perRow = -1, shape[1:]
	}
	copy(perRow, dims)
	if len(nested) > 1 && (len(nested) == rank || len(nested) == len(dims)) {
		shape[0] = 1
		copy(shape[rank-len(nested):], nested)
		return shape, true // the engine compares it with the model's
	}
	left := n
	for _, d := range shape {
		switch {
		case d < 0:
		case d == 0:
			return shape, n == 0
		case left%d != 0:
			return nil, false
		default:
			left /= d
		}
	}
	for i := range slices.Backward(shape) {
		if shape[i] < 0 {
			shape[i], left = left, 1
		}
	}
	return shape, left == 1
}

// AppendGenerated appends a response in the form of the generate extension: one JSON object with the model's name and
// version, the id, parameters and outputs by their names, sorted. An output of one element is that element, others are
// flat lists. Of several with one name, the first counts. Errors: as Builder.Elements.
func AppendGenerated(w *Builder, r *infer.Request, resp *infer.Response) error {
	type field struct {
		name string
		text string // if p and t are nil
		p    *infer.Parameter
		t    *tensor.Tensor
	}
	fields := make([]field, 0, 3+len(resp.Parameters)+len(resp.Outputs))
	if r.ID != "" {
		fields = append(fields, field{name: "id", text: r.ID})
	}
	fields = append(fields, field{name: "model_name", text: r.Served.Name()},
		field{name: "model_version", text: r.Served.VersionText()})
	for i := range resp.Parameters {
		fields = append(fields, field{name: resp.Parameters[i].Name, p: &resp.Parameters[i]})
	}
	for i := range resp.Outputs {
		fields = append(fields, field{name: resp.Outputs[i].Name, t: &resp.Outputs[i]})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	fields = slices.CompactFunc(fields, func(a, b field) bool { return a.name == b.name })
	w.Raw("{")
	for i := range fields {
		f := &fields[i]
		if i > 0 {
			w.Raw(",")
		}
		w.Room(32 + 6*len(f.name) + 6*len(f.text))
		w.B = append(AppendString(w.B, f.name), ':')
		switch {
		case f.t != nil:
			if err := appendGeneratedOutput(w, f.t); err != nil {
				return err
			}
		case f.p != nil:
			w.B = appendParameterValue(w.B, f.p)
		default:
			w.B = AppendString(w.B, f.text)
		}
	}
	w.Raw("}")
	return nil
}

// appendGeneratedOutput appends a tensor's only element, or all in a list.
func appendGeneratedOutput(w *Builder, t *tensor.Tensor) error {
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return errOutputSize(t)
	}
	if n == 1 {
		return w.Elements(t)
	}
	w.Raw("[")
	if err := w.Elements(t); err != nil {
		return err
	}
	w.Raw("]")
	return nil
}
