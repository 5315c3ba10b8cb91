package modelconfig

import (
	"fmt"
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// Signature describes a model file, as read by a backend.
type Signature struct {
	Platform, Backend string // as in config.pbtxt; may be empty
	Inputs, Outputs   []IO   // in the order of the model file
}

// IO is one input or output of a model file.
type IO struct {
	Name     string
	DataType tensor.DataType
	Dims     []int64  // the whole shape, with the batch dimension; -1 is a variable dimension
	DimNames []string // names of variable dimensions, "" for those without; nil or as long as Dims
	Optional bool     // the model has a value for it: a configuration may list it, and requests may leave it out
}

// Batchable reports whether the model can support batching by Triton's rule: the first dimension of every
// required input and output is variable.
func (s *Signature) Batchable() bool { return s.whyNotBatchable() == "" }

// whyNotBatchable names the first tensor that prevents batching. It returns "" if the model can be batched.
func (s *Signature) whyNotBatchable() string {
	for i, io := range slices.Concat(s.Inputs, s.Outputs) {
		kind := "input"
		if i >= len(s.Inputs) {
			kind = "output"
		}
		if io.Optional {
			continue
		}
		if len(io.Dims) == 0 {
			return fmt.Sprintf("%s %q of the model is a scalar and has no batch dimension", kind, io.Name)
		}
		if io.Dims[0] != -1 {
			return fmt.Sprintf("%s %q of the model has shape %s, whose first dimension is fixed",
				kind, io.Name, tensor.FormatShape(io.Dims))
		}
	}
	if len(s.Inputs)+len(s.Outputs) == 0 {
		return "the model has no inputs and outputs"
	}
	return ""
}

// DefaultMaxBatchSize is the max_batch_size of a model that can be batched and whose configuration has none. The
// backend option default-max-batch-size changes it.
const DefaultMaxBatchSize = 4

// CompleteOptions are the settings of Complete.
type CompleteOptions struct {
	DefaultMaxBatchSize int        // 0: no batching unless the configuration asks for it
	Positions           *Positions // for faults; may be nil
}

// Complete fills in what the configuration leaves open from the model's signature, as Triton's ONNX Runtime backend
// does. It changes nothing that the configuration sets.
//
// If inputs or outputs are missing altogether, they are taken from the signature, without the batch dimension and
// without optional inputs. A model that can be batched then also gets max_batch_size (if it is 0). If that is above 1
// and no scheduler is set, it also gets dynamic_batching. If both lists are there, only missing data types and dims of
// their tensors are filled in. An optional input that the configuration lists becomes optional for requests. Complete
// returns a fault if max_batch_size contradicts the model.
func Complete(cfg *inferencepb.ModelConfig, sig *Signature, o CompleteOptions) Faults {
	if cfg.Platform == "" {
		cfg.Platform = sig.Platform
	}
	if cfg.Backend == "" {
		cfg.Backend = sig.Backend
	}
	sig = sig.without(cfg)
	needIn, needOut := len(cfg.Input)+len(cfg.BatchInput) == 0, len(cfg.Output) == 0
	if needIn || needOut {
		if faults := completeBatching(cfg, sig, o); faults != nil {
			return faults
		}
	}
	if needIn {
		for _, io := range sig.Inputs {
			if !io.Optional { // as Triton, which completes only required inputs
				cfg.Input = append(cfg.Input, &inferencepb.ModelInput{Name: io.Name})
			}
		}
	}
	if needOut {
		for _, io := range sig.Outputs {
			cfg.Output = append(cfg.Output, &inferencepb.ModelOutput{Name: io.Name})
		}
	}
	batched := cfg.MaxBatchSize > 0
	for _, in := range cfg.Input {
		completeTensor(sig.Inputs, in.Name, batched, &in.DataType, &in.Dims, &in.Reshape)
		if io, ok := find(sig.Inputs, in.Name); ok && io.Optional {
			in.Optional = true
		}
	}
	for _, out := range cfg.Output {
		completeTensor(sig.Outputs, out.Name, batched, &out.DataType, &out.Dims, &out.Reshape)
	}
	return nil
}

// without returns the signature without the inputs that a sequence batcher provides, and without the outputs that are
// its states, because clients do not send or receive these.
func (s *Signature) without(cfg *inferencepb.ModelConfig) *Signature {
	sb := cfg.GetSequenceBatching()
	if sb == nil {
		return s
	}
	inputs, outputs := map[string]bool{}, map[string]bool{}
	for _, c := range sb.ControlInput {
		inputs[c.Name] = true
	}
	for _, st := range sb.State {
		inputs[st.InputName], outputs[st.OutputName] = true, true
	}
	for _, out := range cfg.Output {
		delete(outputs, out.Name)
	}
	rest := *s
	rest.Inputs = slices.DeleteFunc(slices.Clone(s.Inputs), func(io IO) bool { return inputs[io.Name] })
	rest.Outputs = slices.DeleteFunc(slices.Clone(s.Outputs), func(io IO) bool { return outputs[io.Name] })
	return &rest
}

// completeBatching sets max_batch_size and dynamic_batching.
func completeBatching(cfg *inferencepb.ModelConfig, sig *Signature, o CompleteOptions) Faults {
	if why := sig.whyNotBatchable(); why != "" {
		if cfg.MaxBatchSize <= 0 {
			return nil
		}
		at := o.Positions.At("max_batch_size")
		return Faults{{File: o.Positions.File(), Line: at.Line, Col: at.Col, Path: "max_batch_size",
			Message: fmt.Sprintf("autofill failed for model '%s': model does not support batching while non-zero "+
				"max_batch_size is specified", cfg.Name),
			Fix: "set max_batch_size to 0 or remove it: " + why}}
	}
	if cfg.MaxBatchSize == 0 {
		cfg.MaxBatchSize = int32(max(o.DefaultMaxBatchSize, 0))
	}
	if cfg.MaxBatchSize > 1 && cfg.SchedulingChoice == nil {
		cfg.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{
			DynamicBatching: new(inferencepb.ModelDynamicBatching)}
	}
	return nil
}

// completeTensor fills in the data type and dims of a tensor of the configuration where they are missing.
func completeTensor(list []IO, name string, batched bool,
	dt *inferencepb.DataType, dims *[]int64, reshape **inferencepb.ModelTensorReshape) {
	io, ok := find(list, name)
	if !ok {
		return
	}
	if *dt == inferencepb.DataType_TYPE_INVALID {
		*dt = inferencepb.DataType(io.DataType)
	}
	if len(*dims) == 0 && *reshape == nil {
		*dims, *reshape = configDims(io.Dims, batched)
	}
}

// configDims returns the dims for a shape of the model file. Dims must not be empty: a tensor that has only the batch
// dimension gets [1] with an empty reshape, and a scalar of a model without batching gets [1]. A dimension must not be
// 0: it becomes variable.
func configDims(shape []int64, batched bool) ([]int64, *inferencepb.ModelTensorReshape) {
	if batched && len(shape) > 0 {
		shape = shape[1:]
	}
	switch {
	case len(shape) > 0:
		shape = slices.Clone(shape)
		for i, d := range shape {
			if d == 0 {
				shape[i] = -1
			}
		}
		return shape, nil
	case batched:
		return []int64{1}, new(inferencepb.ModelTensorReshape)
	}
	return []int64{1}, nil
}

func find(list []IO, name string) (IO, bool) {
	for _, io := range list {
		if io.Name == name {
			return io, true
		}
	}
	return IO{}, false
}
