package onnxruntime

import (
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/batchio"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// signature lists the inputs and outputs of a session's model.
type signature struct {
	inputs, outputs []capi.IO
	optional        []bool // by input: the model runs without it
}

// readSignature reads a session's signature. Initializers that an input may override are optional inputs.
func readSignature(s *capi.Session) (*signature, error) {
	var lists [3][]capi.IO
	for i, kind := range []capi.Kind{capi.Inputs, capi.Outputs, capi.Initializers} {
		var err error
		if lists[i], err = s.Signature(kind); err != nil {
			return nil, runtimeError(err)
		}
	}
	inputs, defaults := lists[0], lists[2]
	optional := append(make([]bool, len(inputs)), slices.Repeat([]bool{true}, len(defaults))...)
	return &signature{inputs: append(inputs, defaults...), outputs: lists[1], optional: optional}, nil
}

// public returns the signature for completing a configuration. Outputs that cannot be served are left out.
func (sig *signature) public(s backend.Spec) (*modelconfig.Signature, error) {
	p := &modelconfig.Signature{Platform: "onnxruntime_onnx", Backend: "onnxruntime"}
	for i := range sig.inputs {
		io := &sig.inputs[i]
		switch why := unserved(io); {
		case why != "" && sig.optional[i]:
			continue
		case why != "":
			return nil, status.New(status.Unsupported, why)
		}
		public := publicIO(io)
		public.Optional = sig.optional[i]
		p.Inputs = append(p.Inputs, public)
	}
	var omitted []string
	for i := range sig.outputs {
		if why := unserved(&sig.outputs[i]); why != "" {
			omitted = append(omitted, why)
			continue
		}
		p.Outputs = append(p.Outputs, publicIO(&sig.outputs[i]))
	}
	if len(p.Outputs) == 0 && len(omitted) > 0 {
		return nil, status.New(status.Unsupported, strings.Join(omitted, " "))
	}
	for _, why := range omitted {
		s.Log.Warn("output left out of the model's signature", "model", s.ModelName, "version", s.Version,
			"reason", why)
	}
	return p, nil
}

func publicIO(io *capi.IO) modelconfig.IO {
	return modelconfig.IO{
		Name: io.Name, DataType: elementType(io.Type), Dims: slices.Clone(io.Dims), DimNames: slices.Clone(io.DimNames),
	}
}

// checkConfig compares a configuration with the model. The error texts are Triton's where it has the same check.
func (sig *signature) checkConfig(s backend.Spec) error {
	plan := batchio.New(s.Config)
	if err := sig.checkSequence(s); err != nil {
		return err
	}
	if err := sig.checkBatchInputs(s, plan); err != nil {
		return err
	}
	required := sig.requiredInputs(s, plan)
	if given := len(s.Config.GetInput()); given < len(required) {
		return status.Errorf(status.InvalidArg,
			"unable to load model '%s', configuration expects %d inputs, model provides %d: %s",
			s.ModelName, given, len(required), strings.Join(required, ", "))
	}
	for _, in := range s.Config.GetInput() {
		if err := sig.checkInput(s, plan, in); err != nil {
			return err
		}
	}
	for _, name := range required {
		if !slices.ContainsFunc(s.Config.GetInput(),
			func(in *inferencepb.ModelInput) bool { return in.GetName() == name }) {
			return status.Errorf(status.InvalidArg,
				"unable to load model '%s', the model needs the input '%s' and the configuration does not list it",
				s.ModelName, name)
		}
	}
	for _, out := range s.Config.GetOutput() {
		if err := sig.checkOutput(s, plan, out); err != nil {
			return err
		}
	}
	return nil
}

// requiredInputs returns the names of the inputs that requests must contain.
func (sig *signature) requiredInputs(s backend.Spec, plan *batchio.Plan) (required []string) {
	added := sequenceInputs(s.Config)
	for i := range sig.inputs {
		name := sig.inputs[i].Name
		if !sig.optional[i] && !slices.Contains(added, name) && plan.Input(name) == nil {
			required = append(required, name)
		}
	}
	return required
}

func (sig *signature) checkInput(s backend.Spec, plan *batchio.Plan, in *inferencepb.ModelInput) error {
	io := find(sig.inputs, in.GetName())
	if io == nil {
		return status.Errorf(status.InvalidArg, "unexpected inference input '%s', allowed inputs are: %s",
			in.GetName(), names(sig.inputs))
	}
	dims := in.GetDims()
	if r := in.GetReshape(); r != nil {
		dims = r.GetShape()
	}
	if plan.Ragged(in.GetName()) {
		if !slices.Equal(io.Dims, []int64{-1}) {
			return status.Errorf(status.InvalidArg,
				"unable to load model '%s', configuration expects model provides input with shape [-1]  for "+
					"ragged input '%s', model provides %s",
				s.ModelName, in.GetName(), tensor.FormatShape(io.Dims))
		}
		dims = nil
	}
	return checkTensor(s, "input", io, in.GetDataType(), dims)
}

func (sig *signature) checkOutput(s backend.Spec, plan *batchio.Plan, out *inferencepb.ModelOutput) error {
	io := find(sig.outputs, out.GetName())
	if io == nil {
		return status.Errorf(status.InvalidArg, "unexpected inference output '%s', allowed outputs are: %s",
			out.GetName(), names(sig.outputs))
	}
	if plan.Output(out.GetName()) != nil { // the batch_output determines the shapes of the responses
		return checkType(s, "output", io, out.GetDataType())
	}
	dims := out.GetDims()
	if r := out.GetReshape(); r != nil {
		dims = r.GetShape()
	}
	return checkTensor(s, "output", io, out.GetDataType(), dims)
}

// checkSequence compares the controls and states of the sequence batcher with the model's inputs and outputs.
func (sig *signature) checkSequence(s backend.Spec) error {
	sb := s.Config.GetSequenceBatching()
	for _, in := range sb.GetControlInput() {
		io := find(sig.inputs, in.GetName())
		if io == nil {
			return status.Errorf(status.InvalidArg,
				"model '%s' has no input '%s' for the sequence control; its inputs are: %s", s.ModelName, in.GetName(),
				names(sig.inputs))
		}
		for _, c := range in.GetControl() {
			if err := checkTensor(s, "sequence control", io, controlType(c), []int64{1}); err != nil {
				return err
			}
		}
	}
	for _, st := range sb.GetState() {
		for _, t := range []struct {
			name string
			all  []capi.IO
		}{{st.GetInputName(), sig.inputs}, {st.GetOutputName(), sig.outputs}} {
			io := find(t.all, t.name)
			if io == nil {
				return status.Errorf(status.InvalidArg,
					"model '%s' has no tensor '%s' for the sequence state; there are: %s", s.ModelName, t.name,
					names(t.all))
			}
			if err := checkTensor(s, "sequence state", io, st.GetDataType(), st.GetDims()); err != nil {
				return err
			}
		}
	}
	return nil
}

// controlType returns the datatype of a control's input.
func controlType(c *inferencepb.ModelSequenceBatching_Control) inferencepb.DataType {
	switch {
	case len(c.GetInt32FalseTrue()) > 0:
		return inferencepb.DataType_TYPE_INT32
	case len(c.GetFp32FalseTrue()) > 0:
		return inferencepb.DataType_TYPE_FP32
	case len(c.GetBoolFalseTrue()) > 0:
		return inferencepb.DataType_TYPE_BOOL
	}
	return c.GetDataType()
}

// checkBatchInputs compares the batch inputs with the model's inputs.
func (sig *signature) checkBatchInputs(s backend.Spec, plan *batchio.Plan) error {
	if plan == nil {
		return nil
	}
	for i := range plan.Inputs {
		in := &plan.Inputs[i]
		io := find(sig.inputs, in.Name)
		if io == nil {
			return status.Errorf(status.InvalidArg,
				"model '%s' has no input '%s' for the batch_input; its inputs are: %s", s.ModelName, in.Name,
				names(sig.inputs))
		}
		if err := checkType(s, "batch input", io, inferencepb.DataType(in.DataType)); err != nil {
			return err
		}
		if len(io.Dims) != in.Rank() {
			return status.Errorf(status.InvalidArg,
				"model '%s', batch input '%s': the model expects %d dimensions (shape %s), its kind has %d",
				s.ModelName, in.Name, len(io.Dims), tensor.FormatShape(io.Dims), in.Rank())
		}
	}
	return nil
}

func checkType(s backend.Spec, kind string, io *capi.IO, dt inferencepb.DataType) error {
	if why := unserved(io); why != "" {
		return status.New(status.Unsupported, why)
	}
	if want := elementType(io.Type); want != tensor.DataType(dt) {
		return status.Errorf(status.InvalidArg,
			"unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s",
			s.ModelName, dt, kind, io.Name, want.ConfigName())
	}
	return nil
}

func checkTensor(s backend.Spec, kind string, io *capi.IO, dt inferencepb.DataType, dims []int64) error {
	if err := checkType(s, kind, io, dt); err != nil {
		return err
	}
	if s.Config.GetMaxBatchSize() == 0 {
		if len(io.Dims) == 0 && (len(dims) == 0 || len(dims) == 1 && dims[0] == 1) {
			return nil // a scalar is configured as [1]
		}
		if !fits(io.Dims, dims, kind == "output") {
			return status.Errorf(status.InvalidArg,
				"model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model configuration "+
					"specifies %d dimensions (shape %s)",
				s.ModelName, io.Name, len(io.Dims), tensor.FormatShape(io.Dims), len(dims), tensor.FormatShape(dims))
		}
		return nil
	}
	if len(io.Dims) == 0 || io.Dims[0] != -1 {
		return status.Errorf(status.InvalidArg,
			"model '%s', tensor '%s': for the model to support batching the shape should have at least 1 dimension "+
				"and the first dimension must be -1; but shape expected by the model is %s",
			s.ModelName, io.Name, tensor.FormatShape(io.Dims))
	}
	full := append([]int64{-1}, dims...)
	if !fits(io.Dims, full, kind == "output") {
		return status.Errorf(status.InvalidArg,
			"model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model configuration "+
				"specifies %d dimensions (an initial batch dimension because max_batch_size > 0 followed by the "+
				"explicit tensor shape, making complete shape %s)",
			s.ModelName, io.Name, len(io.Dims), tensor.FormatShape(io.Dims), len(full), tensor.FormatShape(full))
	}
	return nil
}

// fits reports whether the model accepts all tensors of a configured shape. The configuration may be stricter. A
// dimension of 0 is configured as -1. lax accepts -1 for any dimension: ONNX Runtime may know more of an output after
// it has optimized the graph.
func fits(model, config []int64, lax bool) bool {
	if len(model) != len(config) {
		return false
	}
	for i, d := range model {
		if d != -1 && d != config[i] && (config[i] != -1 || d != 0 && !lax) {
			return false
		}
	}
	return true
}

func find(list []capi.IO, name string) *capi.IO {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func names(list []capi.IO) string {
	var all []string
	for i := range list {
		all = append(all, list[i].Name)
	}
	return strings.Join(all, ", ")
}
