package modelconfig

import (
	"math/bits"
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// modelTensor is what inputs and outputs have in common.
type modelTensor interface {
	GetName() string
	GetDataType() inferencepb.DataType
	GetDims() []int64
	GetReshape() *inferencepb.ModelTensorReshape
	GetIsShapeTensor() bool
	GetIsNonLinearFormatIo() bool
}

// tensors checks every input and output, and the lists for duplicates.
func (c *checker) tensors() {
	seen := make(map[string]bool)
	for i, in := range c.cfg.Input {
		path := indexed("input", i)
		c.tensor(in, "input", path, seen)
		if in.Format != inferencepb.ModelInput_FORMAT_NONE && len(in.Dims) != 3 && len(in.Dims) > 0 {
			c.err(path+".format", "give 3 dims without the batch dimension, or remove the format",
				"%s needs 3 dims, input %q has %d", in.Format, in.Name, len(in.Dims))
		}
		if in.AllowRaggedBatch && c.cfg.MaxBatchSize == 0 {
			c.warn(path+".allow_ragged_batch", "set max_batch_size",
				"allow_ragged_batch does nothing while max_batch_size is 0")
		}
	}
	clear(seen)
	for i, out := range c.cfg.Output {
		path := indexed("output", i)
		c.tensor(out, "output", path, seen)
		if out.LabelFilename != "" {
			c.file(path+".label_filename", "label file", out.LabelFilename)
		}
	}
}

func (c *checker) tensor(t modelTensor, kind, path string, seen map[string]bool) {
	name := t.GetName()
	switch {
	case name == "":
		c.err(path+".name", "add a name", "%s has no name", path)
		name = path
	case seen[name] && kind == "input": // no request could have both
		c.err(path+".name", "remove one, or give it its own name", "there are two inputs %q", name)
	case seen[name]:
		c.warn(path+".name", "remove one, or give it its own name", "there are two outputs %q", name)
	}
	seen[name] = true
	if t.GetDataType() == inferencepb.DataType_TYPE_INVALID {
		c.err(path+".data_type", "add a line such as data_type: TYPE_FP32", "%s %q has no data_type", kind, name)
	}
	if len(t.GetDims()) == 0 {
		c.err(path+".dims", "add a line such as dims: [ 3, 224, 224 ]; for a single number write dims: [ 1 ]",
			"%s %q has no dims", kind, name)
	} else {
		c.dims(t.GetDims(), path+".dims", kind, name)
	}
	if t.GetReshape() != nil {
		c.reshape(t, kind, path)
	}
	tensorRT := c.isTensorRT()
	if t.GetIsShapeTensor() && !tensorRT {
		c.err(path+".is_shape_tensor", "remove it", "%s %q is a shape tensor, which only TensorRT has", kind, name)
	}
	switch linear := !t.GetIsNonLinearFormatIo(); {
	case linear:
	case !tensorRT:
		c.err(path+".is_non_linear_format_io", "remove it",
			"%s %q has a non-linear format, which only TensorRT has", kind, name)
	case len(t.GetDims()) != 3:
		c.err(path+".dims", "give 3 dims", "%s %q has a non-linear format, which needs 3 dims", kind, name)
	}
}

// validDim reports whether a dimension is positive or variable.
func validDim(d int64) bool { return d >= 1 || d == -1 }

// badDim returns the index of the first dimension that is not valid, -1 if there is none.
func badDim(dims []int64) int {
	return slices.IndexFunc(dims, func(d int64) bool { return !validDim(d) })
}

// dims checks each dimension, and that a tensor of them is not too large.
func (c *checker) dims(dims []int64, path, kind, name string) {
	for i, d := range dims {
		if !validDim(d) {
			c.err(indexed(path, i), "use 1 or more, or -1 for a variable dimension",
				"%s %q has dimension %d", kind, name, d)
		}
	}
	n, fits := elements(dims)
	if badDim(dims) < 0 && (!fits || n*uint64(max(c.cfg.MaxBatchSize, 1)) > maxElements) {
		c.err(path, "", "%s %q with dims %s is larger than memory can be", kind, name, tensor.FormatShape(dims))
	}
}

// elements returns the product of dims, with 1 for variable ones. ok is false if the product is above maxElements.
func elements(dims []int64) (n uint64, ok bool) {
	n = 1
	for _, d := range dims {
		if d < 1 {
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > maxElements {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// reshape checks that dims and reshape hold the same elements: the fixed dimensions between two variable ones
// must have the same product.
func (c *checker) reshape(t modelTensor, kind, path string) {
	dims, shape := t.GetDims(), t.GetReshape().GetShape()
	path += ".reshape"
	if len(shape) == 0 && c.cfg.MaxBatchSize == 0 {
		c.err(path, "set max_batch_size, or write the shape out",
			"%s %q has an empty reshape, which needs a batch dimension beside it", kind, t.GetName())
		return
	}
	if i := badDim(shape); i >= 0 {
		c.err(indexed(path+".shape", i), "use 1 or more, or -1 for a variable dimension",
			"%s %q has reshape dimension %d", kind, t.GetName(), shape[i])
		return
	}
	if badDim(dims) >= 0 || len(dims) == 0 {
		return // reported already
	}
	from, to := runs(dims), runs(shape)
	if len(from) != len(to) {
		c.err(path, "use as many -1 in both", "%s %q has %d variable dimensions in dims %s and %d in reshape %s",
			kind, t.GetName(), len(from)-1, tensor.FormatShape(dims), len(to)-1, tensor.FormatShape(shape))
	} else if !slices.Equal(from, to) {
		c.err(path, "the products of the dimensions must be equal",
			"%s %q has dims %s and reshape %s, which hold different numbers of elements",
			kind, t.GetName(), tensor.FormatShape(dims), tensor.FormatShape(shape))
	}
}

// runs returns the products of the fixed dimensions before, between and after the variable ones.
func runs(dims []int64) []uint64 {
	var out []uint64
	start := 0
	for i, d := range dims {
		if d == -1 {
			n, _ := elements(dims[start:i])
			out = append(out, n)
			start = i + 1
		}
	}
	n, _ := elements(dims[start:])
	return append(out, n)
}

// batchIO checks batch_input and batch_output.
func (c *checker) batchIO() {
	outputs := make(map[string]bool)
	for _, out := range c.cfg.Output {
		outputs[out.Name] = true
	}
	for i, b := range c.cfg.BatchInput {
		path := indexed("batch_input", i)
		c.sources(b.SourceInput, path, b.Kind.String())
		if len(b.TargetName) == 0 {
			c.err(path+".target_name", "name the model's input that gets it", "%s has no target_name", path)
		}
		if b.DataType != inferencepb.DataType_TYPE_INT32 && b.DataType != inferencepb.DataType_TYPE_FP32 {
			c.err(path+".data_type", "use TYPE_INT32 or TYPE_FP32", "%s has data_type %s", path, b.DataType)
		}
	}
	seen := make(map[string]bool)
	for i, b := range c.cfg.BatchOutput {
		path := indexed("batch_output", i)
		c.sources(b.SourceInput, path, b.Kind.String())
		for j, name := range b.TargetName {
			at := indexed(path+".target_name", j)
			if !outputs[name] {
				c.err(at, "use the name of an output",
					"%s has the target %q, which is no output of the model", path, name)
			}
			if seen[name] {
				c.err(at, "remove one", "output %q is the target of two batch outputs", name)
			}
			seen[name] = true
		}
	}
}

// sources checks the source inputs of a batch input or output.
func (c *checker) sources(names []string, path, kind string) {
	if len(names) != 1 {
		c.err(path+".source_input", "name one input", "%s needs 1 source_input, %s has %d", kind, path, len(names))
	}
	for j, name := range names {
		if inputIndex(c.cfg, name) < 0 {
			c.err(indexed(path+".source_input", j), "use the name of an input",
				"%s has the source %q, which is no input of the model", path, name)
		}
	}
}

// inputIndex returns the index of an input of the configuration, -1 if there is none.
func inputIndex(cfg *inferencepb.ModelConfig, name string) int {
	return slices.IndexFunc(cfg.Input, func(in *inferencepb.ModelInput) bool { return in.Name == name })
}

// internalInput is an input of the model that the server provides, not the client.
type internalInput struct{ name, what, path string }

// internalInputs lists the model's inputs that the server provides.
func (c *checker) internalInputs() []internalInput {
	var list []internalInput
	for i, ctl := range c.cfg.GetSequenceBatching().GetControlInput() {
		path := indexed("sequence_batching.control_input", i) + ".name"
		list = append(list, internalInput{ctl.Name, "sequence control", path})
	}
	for i, s := range c.cfg.GetSequenceBatching().GetState() {
		path := indexed("sequence_batching.state", i) + ".input_name"
		list = append(list, internalInput{s.InputName, "sequence state", path})
	}
	for i, b := range c.cfg.BatchInput {
		for j, name := range b.TargetName {
			path := indexed(indexed("batch_input", i)+".target_name", j)
			list = append(list, internalInput{name, "batch input", path})
		}
	}
	return list
}
