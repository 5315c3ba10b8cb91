package model

import (
	"encoding/binary"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// signature is what a request must look like, computed once from the configuration.
type signature struct {
	model    string
	maxBatch int64 // 0: no batch dimension
	inputs   []port
	required int
	outputs  []port
	reshapes bool // some output is reshaped
	scalars  bool // backend.Traits.Scalars
}

// port is an input or output of the model.
type port struct {
	name     string
	dataType tensor.DataType
	dims     []int64 // without the batch dimension; -1: any
	reshape  []int64 // what the backend sees in place of dims; nil: the same
	optional bool
	fixed    int64 // bytes of one row if all dims are fixed and the type has a size, else -1
}

func newSignature(cfg *inferencepb.ModelConfig) signature {
	s := signature{model: cfg.GetName(), maxBatch: int64(cfg.GetMaxBatchSize())}
	for _, in := range cfg.GetInput() {
		p := newPort(in.GetName(), in.GetDataType(), in.GetDims(), in.GetReshape())
		if p.optional = in.GetOptional(); !p.optional {
			s.required++
		}
		s.inputs = append(s.inputs, p)
	}
	for _, out := range cfg.GetOutput() {
		p := newPort(out.GetName(), out.GetDataType(), out.GetDims(), out.GetReshape())
		s.reshapes = s.reshapes || p.reshape != nil
		s.outputs = append(s.outputs, p)
	}
	return s
}

func newPort(name string, dt inferencepb.DataType, dims []int64, re *inferencepb.ModelTensorReshape) port {
	p := port{name: name, dataType: tensor.DataType(dt), dims: dims, fixed: -1}
	if re != nil {
		p.reshape = append([]int64{}, re.GetShape()...)
	}
	if n, err := tensor.ByteSize(p.dataType, dims); err == nil { // an error: some dimension is -1
		p.fixed = n
	}
	return p
}

func (s *signature) input(name string) *port {
	for i := range s.inputs {
		if s.inputs[i].name == name {
			return &s.inputs[i]
		}
	}
	return nil
}

func (s *signature) output(name string) *port {
	for i := range s.outputs {
		if s.outputs[i].name == name {
			return &s.outputs[i]
		}
	}
	return nil
}

// check refuses a request that the model cannot run, sets its BatchSize and reshapes its inputs. The texts are
// Triton's, which clients match on. All errors are InvalidArg.
func (s *signature) check(r *infer.Request) error {
	if err := s.checkNames(r); err != nil {
		return err
	}
	r.BatchSize = 1
	for i := range r.Inputs {
		in := &r.Inputs[i]
		p := s.input(in.Name)
		if p == nil {
			return status.Errorf(status.InvalidArg, "unexpected inference input '%s' for model '%s'", in.Name, s.model)
		}
		if in.DataType != p.dataType {
			return invalid(r, "inference input '%s' data-type is '%s', but model '%s' expects '%s'", in.Name,
				in.DataType, s.model, p.dataType)
		}
		if err := s.checkShape(r, i, p); err != nil {
			return err
		}
		if err := s.checkSize(r, in, p); err != nil {
			return err
		}
		if p.reshape != nil {
			in.Shape = s.reshape(in.Shape, p.dims, p.reshape)
		}
	}
	if s.maxBatch > 0 && int64(r.BatchSize) > s.maxBatch {
		return invalid(r, "inference request batch-size must be <= %d for '%s'", s.maxBatch, s.model)
	}
	return nil
}

func (s *signature) checkNames(r *infer.Request) error {
	if len(r.Inputs) > len(s.inputs)+maxSurplus {
		return s.wrongInputs(r)
	}
	known := 0
	for i := range r.Inputs {
		name := r.Inputs[i].Name
		for j := range i {
			if r.Inputs[j].Name == name {
				return invalid(r, "input '%s' already exists in request", name)
			}
		}
		if p := s.input(name); p != nil && !p.optional {
			known++
		}
	}
	for i := range r.Outputs {
		if s.output(r.Outputs[i].Name) == nil {
			return status.Errorf(status.InvalidArg, "unexpected inference output '%s' for model '%s'",
				r.Outputs[i].Name, s.model)
		}
	}
	if known == s.required && len(r.Inputs) <= len(s.inputs) || len(r.Inputs) == len(s.inputs) &&
		s.required == len(s.inputs) {
		return nil // an unknown one in place of another is named by check
	}
	return s.wrongInputs(r)
}

// maxSurplus is how many inputs too many a request may have to get an answer that names each of them.
const maxSurplus = 64

func (s *signature) wrongInputs(r *infer.Request) error {
	var got, missing []string
	for i := range r.Inputs[:min(len(r.Inputs), len(s.inputs)+maxSurplus)] {
		got = append(got, "'"+r.Inputs[i].Name+"'")
	}
	if len(got) < len(r.Inputs) {
		got = append(got, "...")
	}
	for i := range s.inputs {
		if p := &s.inputs[i]; !p.optional && r.Input(p.name) == nil {
			missing = append(missing, "'"+p.name+"'")
		}
	}
	if s.required < len(s.inputs) {
		return invalid(r, "expected number of inputs between %d and %d but got %d inputs for model '%s'. Got "+
			"input(s) [%s], "+
			"but missing required input(s) [%s]. Please provide all required input(s).", s.required, len(s.inputs),
			len(r.Inputs), s.model,
			strings.Join(got, ","), strings.Join(missing, ","))
	}
	return invalid(r, "expected %d inputs but got %d inputs for model '%s'. Got input(s) [%s], but missing required "+
		"input(s) [%s]. "+
		"Please provide all required input(s).", len(s.inputs), len(r.Inputs), s.model, strings.Join(got, ","),
		strings.Join(missing, ","))
}

func (s *signature) checkShape(r *infer.Request, i int, p *port) error {
	shape := r.Inputs[i].Shape
	if s.maxBatch > 0 {
		if len(shape) == 0 {
			return invalid(r, "input '%s' has no shape but model requires batch dimension for '%s'", p.name, s.model)
		}
		if i == 0 {
			// Triton names the input that differs from the others; with a first dimension of 0 it is the first.
			if shape[0] < 1 {
				return invalid(r, "input '%s' batch size does not match other inputs for '%s'", p.name, s.model)
			}
			r.BatchSize = int(min(shape[0], 1<<31))
		} else if shape[0] != int64(r.BatchSize) {
			return invalid(r, "input '%s' batch size does not match other inputs for '%s'", p.name, s.model)
		}
		if s.matches(shape[1:], p.dims) {
			return nil
		}
		if err := s.checkBatch(r); err != nil {
			return err
		}
		full := append([]int64{-1}, p.dims...)
		return invalid(r, "unexpected shape for input '%s' for model '%s'. Expected %s, got %s. NOTE: Setting a "+
			"non-zero max_batch_size "+
			"in the model config requires a batch dimension to be prepended to each input shape. If you want to "+
			"specify the full shape "+
			"including the batch dim in your input dims config, try setting max_batch_size to zero. See the model "+
			"configuration docs for "+
			"more info on max_batch_size.", p.name, s.model, tensor.FormatShape(full), tensor.FormatShape(shape))
	}
	if s.matches(shape, p.dims) {
		return nil
	}
	if s.scalars && len(shape) == 0 && len(p.dims) == 1 && p.dims[0] == 1 {
		r.Inputs[i].Shape = []int64{1}
		return nil
	}
	return invalid(r, "unexpected shape for input '%s' for model '%s'. Expected %s, got %s. ", p.name, s.model,
		tensor.FormatShape(p.dims), tensor.FormatShape(shape))
}

// checkBatch checks the batch sizes of a request with a wrong shape: their errors come first.
func (s *signature) checkBatch(r *infer.Request) error {
	for i := range r.Inputs {
		if shape := r.Inputs[i].Shape; len(shape) > 0 && shape[0] != r.Inputs[0].Shape[0] {
			return invalid(r, "input '%s' batch size does not match other inputs for '%s'", r.Inputs[i].Name, s.model)
		}
	}
	if int64(r.BatchSize) > s.maxBatch {
		return invalid(r, "inference request batch-size must be <= %d for '%s'", s.maxBatch, s.model)
	}
	return nil
}

func (s *signature) matches(shape, dims []int64) bool {
	if len(shape) != len(dims) {
		return false
	}
	for i, d := range dims {
		if shape[i] < 0 || d >= 0 && shape[i] != d {
			return false
		}
	}
	return true
}

func (s *signature) checkSize(r *infer.Request, in *tensor.Tensor, p *port) error {
	if in.Data == nil && in.OnDevice() != nil {
		r.OnDevice = true
	}
	if uint64(p.fixed) < 1<<40 && r.BatchSize < 1<<20 && int64(r.BatchSize)*p.fixed == int64(in.Size()) {
		return nil // the product cannot wrap
	}
	want, err := tensor.ByteSize(in.DataType, in.Shape)
	if err != nil {
		return invalid(r, "input '%s' for model '%s': %s", in.Name, s.model, err)
	}
	if want < 0 {
		n, err := tensor.Elements(in.Shape)
		if err != nil {
			return invalid(r, "input '%s' for model '%s': %s", in.Name, s.model, err)
		}
		if tensor.CheckBytes(in.Data, n) != nil {
			return s.wrongStrings(r, in, n)
		}
		return nil
	}
	if want != int64(in.Size()) {
		return invalid(r, "input byte size mismatch for input '%s' for model '%s'. Expected %d, got %d", in.Name,
			s.model, want, in.Size())
	}
	return nil
}

// wrongStrings says why the data of a BYTES input are not n elements, in Triton's words.
func (s *signature) wrongStrings(r *infer.Request, in *tensor.Tensor, n int64) error {
	got, rest := int64(0), in.Data
	for _, element := range tensor.BytesElements(in.Data) {
		rest = rest[4+len(element):]
		got++
	}
	switch {
	case len(rest) == 0 && got < n:
		return invalid(r, "expected %d string elements for inference input '%s' for model '%s', got %d", n, in.Name,
			s.model, got)
	case got > n || got == n && len(rest) >= 4:
		return invalid(r, "unexpected number of string elements %d for inference input '%s' for model '%s', "+
			"expecting %d", max(got, n+1), in.Name, s.model, n)
	case len(rest) < 4:
		return invalid(r, "incomplete string length indicator for inference input '%s' for model '%s', expecting 4 "+
			"bytes but only %d bytes available. "+
			"Please make sure the string length indicator is in one buffer.", in.Name, s.model, len(rest))
	}
	return invalid(r, "incomplete string data for inference input '%s' for model '%s', expecting string of length "+
		"%d but only %d bytes available",
		in.Name, s.model, binary.LittleEndian.Uint32(rest), len(rest)-4)
}

// reshape maps a shape as the client sees it to what the backend sees, or back: dims of -1 are taken over in order.
func (s *signature) reshape(shape, from, to []int64) []int64 {
	var out []int64
	if s.maxBatch > 0 {
		out = append(out, shape[0])
		shape = shape[1:]
	}
	at := 0
	for _, d := range to {
		if d < 0 {
			for at < len(from) && from[at] >= 0 {
				at++
			}
			if at < len(shape) {
				d = shape[at]
				at++
			}
		}
		out = append(out, d)
	}
	return out
}

// reshapeOutputs changes the outputs' shapes to those that clients see.
func (s *signature) reshapeOutputs(_ *infer.Request, resp *infer.Response) {
	if !s.reshapes || resp.Err != nil {
		return
	}
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		p := s.output(out.Name)
		if p == nil || p.reshape == nil || s.maxBatch > 0 && len(out.Shape) == 0 {
			continue
		}
		shape := s.reshape(out.Shape, p.reshape, p.dims)
		if a, err := tensor.Elements(shape); err != nil || !sameCount(a, out.Shape) {
			continue // the backend's shape is not the one that the configuration promises: show it as it is
		}
		out.Shape = shape
	}
}

func sameCount(n int64, shape []int64) bool {
	m, err := tensor.Elements(shape)
	return err == nil && m == n
}

func invalid(r *infer.Request, format string, args ...any) error {
	id := r.ID
	if id == "" {
		id = "<id_unknown>"
	}
	return status.Errorf(status.InvalidArg, "[request id: %s] "+format, append([]any{id}, args...)...)
}
