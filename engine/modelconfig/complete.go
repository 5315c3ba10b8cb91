package modelconfig

import (
	"fmt"
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// Signature is what a backend found in a model file.
type Signature struct {
	Platform, Backend string // as in config.pbtxt; may be empty
	Inputs, Outputs   []IO   // in the order of the model
}

// IO is one input or output of a model file.
type IO struct {
	Name     string
	DataType tensor.DataType
	Dims     []int64  // the whole shape, with the batch dimension; -1 is a variable dimension
	DimNames []string // names of variable dimensions, "" where there is none; nil or as long as Dims
	Optional bool     // the model runs without it
}

// Batchable reports whether the model can support batching by Triton's rule: the first dimension of every
// input and output is variable.
func (s *Signature) Batchable() bool {
	all := append(append([]IO{}, s.Inputs...), s.Outputs...)
	for _, io := range all {
		if len(io.Dims) == 0 || io.Dims[0] != -1 {
			return false
		}
	}
	return len(all) > 0
}

// DefaultMaxBatchSize is the max_batch_size of a model that can be batched and does not say how far; the
// backend option default-max-batch-size changes it.
const DefaultMaxBatchSize = 4

// CompleteOptions is what completion depends on besides the model.
type CompleteOptions struct {
	DefaultMaxBatchSize int        // 0 turns batching off where the configuration does not ask for it
	Positions           *Positions // for faults; may be nil
}

// Complete fills in what the configuration leaves open from the model's signature, as Triton's ONNX Runtime
// backend does. What the configuration says stays.
//
// When inputs or outputs are missing altogether: a model that can be batched gets max_batch_size (if it is 0)
// and, when that is above 1 and no scheduler is set, dynamic_batching; the missing list is taken from the
// signature, without the batch dimension. When both lists are there, only missing data types and dims of the
// tensors in them are filled in. It returns a fault when max_batch_size contradicts the model.
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
		if fault, ok := completeBatching(cfg, sig, o); !ok {
			return Faults{fault}
		}
	}
	batched := cfg.MaxBatchSize > 0
	if needIn {
		for _, io := range sig.Inputs {
			dims, reshape := configDims(io.Dims, batched)
			cfg.Input = append(cfg.Input, &inferencepb.ModelInput{Name: io.Name, DataType: inferencepb.DataType(io.DataType),
				Dims: dims, Reshape: reshape, Optional: io.Optional})
		}
	}
	if needOut {
		for _, io := range sig.Outputs {
			dims, reshape := configDims(io.Dims, batched)
			cfg.Output = append(cfg.Output, &inferencepb.ModelOutput{Name: io.Name, DataType: inferencepb.DataType(io.DataType),
				Dims: dims, Reshape: reshape})
		}
	}
	completeTensors(cfg, sig, batched)
	return nil
}

// without is the signature as clients see it: the inputs that a sequence batcher fills, and the outputs that are its states,
// are not to be completed.
func (s *Signature) without(cfg *inferencepb.ModelConfig) *Signature {
	sb := cfg.GetSequenceBatching()
	if sb == nil {
		return s
	}
	inside := map[string]bool{}
	for _, c := range sb.ControlInput {
		inside[c.Name] = true
	}
	outside := map[string]bool{}
	for _, st := range sb.State {
		inside[st.InputName], outside[st.OutputName] = true, true
	}
	rest := *s
	rest.Inputs = slices.DeleteFunc(slices.Clone(s.Inputs), func(io IO) bool { return inside[io.Name] })
	rest.Outputs = slices.DeleteFunc(slices.Clone(s.Outputs), func(io IO) bool { return outside[io.Name] && !listed(cfg, io.Name) })
	return &rest
}

// listed reports whether a configuration lists an output.
func listed(cfg *inferencepb.ModelConfig, name string) bool {
	return slices.ContainsFunc(cfg.Output, func(o *inferencepb.ModelOutput) bool { return o.Name == name })
}

// completeBatching sets max_batch_size and dynamic_batching.
func completeBatching(cfg *inferencepb.ModelConfig, sig *Signature, o CompleteOptions) (Fault, bool) {
	if !sig.Batchable() {
		if cfg.MaxBatchSize <= 0 {
			return Fault{}, true
		}
		at := o.Positions.At("max_batch_size")
		return Fault{File: o.Positions.File(), Line: at.Line, Col: at.Col, Path: "max_batch_size",
			Message: fmt.Sprintf("autofill failed for model '%s': model does not support batching while non-zero max_batch_size is specified", cfg.Name),
			Fix:     "set max_batch_size to 0 or remove it: " + whyNotBatchable(sig)}, false
	}
	if cfg.MaxBatchSize == 0 {
		cfg.MaxBatchSize = int32(max(o.DefaultMaxBatchSize, 0))
	}
	if cfg.MaxBatchSize > 1 && cfg.SchedulingChoice == nil {
		cfg.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{DynamicBatching: new(inferencepb.ModelDynamicBatching)}
	}
	return Fault{}, true
}

// whyNotBatchable names the first tensor that keeps the model from being batched.
func whyNotBatchable(sig *Signature) string {
	for i, io := range append(append([]IO{}, sig.Inputs...), sig.Outputs...) {
		kind := "input"
		if i >= len(sig.Inputs) {
			kind = "output"
		}
		if len(io.Dims) == 0 {
			return fmt.Sprintf("%s %q of the model is a scalar and has no batch dimension", kind, io.Name)
		}
		if io.Dims[0] != -1 {
			return fmt.Sprintf("%s %q of the model has shape %s, whose first dimension is fixed", kind, io.Name, tensor.FormatShape(io.Dims))
		}
	}
	return "the model has no inputs and outputs"
}

// configDims turns a shape of the model file into dims. Dims must not be empty: a tensor that has only the
// batch dimension gets [1] with an empty reshape, a scalar of a model without batching [1].
func configDims(shape []int64, batched bool) ([]int64, *inferencepb.ModelTensorReshape) {
	if batched && len(shape) > 0 {
		shape = shape[1:]
	}
	if len(shape) == 0 && batched {
		return []int64{1}, new(inferencepb.ModelTensorReshape)
	}
	if len(shape) == 0 {
		return []int64{1}, nil
	}
	return append([]int64(nil), shape...), nil
}

// completeTensors fills in missing data types and dims of tensors that the configuration names.
func completeTensors(cfg *inferencepb.ModelConfig, sig *Signature, batched bool) {
	for _, in := range cfg.Input {
		if io, ok := find(sig.Inputs, in.Name); ok {
			if in.DataType == inferencepb.DataType_TYPE_INVALID {
				in.DataType = inferencepb.DataType(io.DataType)
			}
			if len(in.Dims) == 0 && in.Reshape == nil {
				in.Dims, in.Reshape = configDims(io.Dims, batched)
			}
		}
	}
	for _, out := range cfg.Output {
		if io, ok := find(sig.Outputs, out.Name); ok {
			if out.DataType == inferencepb.DataType_TYPE_INVALID {
				out.DataType = inferencepb.DataType(io.DataType)
			}
			if len(out.Dims) == 0 && out.Reshape == nil {
				out.Dims, out.Reshape = configDims(io.Dims, batched)
			}
		}
	}
}

func find(list []IO, name string) (IO, bool) {
	for _, io := range list {
		if io.Name == name {
			return io, true
		}
	}
	return IO{}, false
}
