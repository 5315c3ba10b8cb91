package modelconfig

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

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

// tensors checks every input and output by itself, and the lists for duplicates.
func (c *checker) tensors() {
	seen := make(map[string]bool)
	for i, in := range c.cfg.Input {
		path := fmt.Sprintf("input[%d]", i)
		c.tensor(in, "input", path, seen)
		if in.Format != inferencepb.ModelInput_FORMAT_NONE && len(in.Dims) != 3 && len(in.Dims) > 0 {
			c.err(path+".format", "give 3 dims without the batch dimension, or remove the format",
				"%s needs 3 dims, input %q has %d", in.Format, in.Name, len(in.Dims))
		}
		if in.AllowRaggedBatch && c.cfg.MaxBatchSize == 0 {
			c.warn(path+".allow_ragged_batch", "set max_batch_size", "allow_ragged_batch does nothing while max_batch_size is 0")
		}
	}
	seen = make(map[string]bool)
	for i, out := range c.cfg.Output {
		path := fmt.Sprintf("output[%d]", i)
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
	case seen[name]:
		c.err(path+".name", "remove one, or give it its own name", "there are two %ss %q", kind, name)
	}
	seen[name] = true
	if t.GetDataType() == inferencepb.DataType_TYPE_INVALID {
		c.err(path+".data_type", "add a line such as data_type: TYPE_FP32", "%s %q has no data_type", kind, name)
	}
	if len(t.GetDims()) == 0 {
		c.err(path+".dims", "add a line such as dims: [ 3, 224, 224 ]; for a single number write dims: [ 1 ]", "%s %q has no dims", kind, name)
	} else {
		c.dims(t.GetDims(), path+".dims", kind, name, t.GetDataType())
	}
	if t.GetReshape() != nil {
		c.reshape(t, kind, path)
	}
	if t.GetIsShapeTensor() && c.cfg.Platform != "tensorrt_plan" {
		c.err(path+".is_shape_tensor", "remove it", "%s %q is a shape tensor, which only TensorRT has", kind, name)
	}
	if t.GetIsNonLinearFormatIo() {
		if c.cfg.Platform != "tensorrt_plan" {
			c.err(path+".is_non_linear_format_io", "remove it", "%s %q has a non-linear format, which only TensorRT has", kind, name)
		} else if len(t.GetDims()) != 3 {
			c.err(path+".dims", "give 3 dims", "%s %q has a non-linear format, which needs 3 dims", kind, name)
		}
	}
}

// dims checks each dimension, and that a tensor of them can exist.
func (c *checker) dims(dims []int64, path, kind, name string, dt inferencepb.DataType) {
	ok := true
	for i, d := range dims {
		if d < 1 && d != -1 {
			c.err(fmt.Sprintf("%s[%d]", path, i), "use 1 or more, or -1 for a variable dimension", "%s %q has dimension %d", kind, name, d)
			ok = false
		}
	}
	if n, fits := elements(dims); ok && (!fits || n*uint64(max(c.cfg.MaxBatchSize, 1)) > maxElements) {
		c.err(path, "", "%s %q with dims %s is larger than memory can be", kind, name, tensor.FormatShape(dims))
	}
}

// elements multiplies dims, variable ones as 1. It reports false when the product passes maxElements.
func elements(dims []int64) (uint64, bool) {
	n := uint64(1)
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
	at := path + ".reshape"
	if len(shape) == 0 && c.cfg.MaxBatchSize == 0 {
		c.err(at, "set max_batch_size, or write the shape out", "%s %q has an empty reshape, which needs a batch dimension beside it", kind, t.GetName())
		return
	}
	for i, d := range shape {
		if d < 1 && d != -1 {
			c.err(fmt.Sprintf("%s.shape[%d]", at, i), "use 1 or more, or -1 for a variable dimension", "%s %q has reshape dimension %d", kind, t.GetName(), d)
			return
		}
	}
	if slices.ContainsFunc(dims, func(d int64) bool { return d < 1 && d != -1 }) || len(dims) == 0 {
		return // said already
	}
	from, to := runs(dims), runs(shape)
	if len(from) != len(to) {
		c.err(at, "use as many -1 in both", "%s %q has %d variable dimensions in dims %s and %d in reshape %s",
			kind, t.GetName(), len(from)-1, tensor.FormatShape(dims), len(to)-1, tensor.FormatShape(shape))
	} else if !slices.Equal(from, to) {
		c.err(at, "the products of the dimensions must be equal", "%s %q has dims %s and reshape %s, which hold different numbers of elements",
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
	inputs, outputs := make(map[string]bool), make(map[string]bool)
	for _, in := range c.cfg.Input {
		inputs[in.Name] = true
	}
	for _, out := range c.cfg.Output {
		outputs[out.Name] = true
	}
	for i, b := range c.cfg.BatchInput {
		path := fmt.Sprintf("batch_input[%d]", i)
		c.sources(b.SourceInput, path, b.Kind.String(), inputs)
		if len(b.TargetName) == 0 {
			c.err(path+".target_name", "name the model's input that gets it", "%s has no target_name", path)
		}
		if b.DataType != inferencepb.DataType_TYPE_INT32 && b.DataType != inferencepb.DataType_TYPE_FP32 {
			c.err(path+".data_type", "use TYPE_INT32 or TYPE_FP32", "%s has data_type %s", path, b.DataType)
		}
	}
	seen := make(map[string]bool)
	for i, b := range c.cfg.BatchOutput {
		path := fmt.Sprintf("batch_output[%d]", i)
		c.sources(b.SourceInput, path, b.Kind.String(), inputs)
		for j, name := range b.TargetName {
			at := fmt.Sprintf("%s.target_name[%d]", path, j)
			if !outputs[name] {
				c.err(at, "use the name of an output", "%s has the target %q, which is no output of the model", path, name)
			}
			if seen[name] {
				c.err(at, "remove one", "output %q is the target of two batch outputs", name)
			}
			seen[name] = true
		}
	}
}

func (c *checker) sources(names []string, path, kind string, inputs map[string]bool) {
	if len(names) != 1 {
		c.err(path+".source_input", "name one input", "%s needs 1 source_input, %s has %d", kind, path, len(names))
	}
	for j, name := range names {
		if !inputs[name] {
			c.err(fmt.Sprintf("%s.source_input[%d]", path, j), "use the name of an input", "%s has the source %q, which is no input of the model", path, name)
		}
	}
}

// signature compares the configuration with what the model file has.
func (c *checker) signature(sig *Signature) {
	given := make(map[string]bool)
	for i, in := range c.cfg.Input {
		given[in.Name] = true
		c.compare(in, sig.Inputs, "input", fmt.Sprintf("input[%d]", i))
	}
	for _, extra := range c.internalInputs() {
		given[extra.name] = true
		if _, ok := find(sig.Inputs, extra.name); !ok {
			c.err(extra.path, "use the name of an input of the model: "+ioNames(sig.Inputs), "the model has no input %q for the %s", extra.name, extra.what)
		}
	}
	var missing []string
	required := 0
	for _, io := range sig.Inputs {
		if io.Optional {
			continue
		}
		required++
		if !given[io.Name] {
			missing = append(missing, io.Name)
		}
	}
	if len(missing) > 0 && len(given) != required { // with equal numbers, the unexpected names are faults already
		c.err("input", "add the inputs "+strings.Join(missing, ", "), "unable to load model '%s', configuration expects %d inputs, model provides %d",
			c.cfg.Name, len(given), required)
	}
	for i, out := range c.cfg.Output {
		c.compare(out, sig.Outputs, "output", fmt.Sprintf("output[%d]", i))
	}
}

type internalInput struct{ name, what, path string }

// internalInputs lists the model's inputs that the server fills, not the client.
func (c *checker) internalInputs() []internalInput {
	var list []internalInput
	for i, ctl := range c.cfg.GetSequenceBatching().GetControlInput() {
		list = append(list, internalInput{ctl.Name, "sequence control", fmt.Sprintf("sequence_batching.control_input[%d].name", i)})
	}
	for i, s := range c.cfg.GetSequenceBatching().GetState() {
		list = append(list, internalInput{s.InputName, "sequence state", fmt.Sprintf("sequence_batching.state[%d].input_name", i)})
	}
	for i, b := range c.cfg.BatchInput {
		for j, name := range b.TargetName {
			list = append(list, internalInput{name, "batch input", fmt.Sprintf("batch_input[%d].target_name[%d]", i, j)})
		}
	}
	return list
}

// compare checks one tensor of the configuration against the model's. The messages are those of Triton's
// ONNX Runtime backend.
func (c *checker) compare(t modelTensor, model []IO, kind, path string) {
	if t.GetName() == "" {
		return
	}
	io, ok := find(model, t.GetName())
	if !ok {
		names := make([]string, len(model))
		for i, io := range model {
			names[i] = io.Name
		}
		fix := "use a name that the model has"
		if s := suggest(t.GetName(), names); s != "" {
			fix = fmt.Sprintf("did you mean %q?", s)
		}
		c.err(path+".name", fix, "unexpected inference %s '%s', allowed %ss are: %s", kind, t.GetName(), kind, ioNames(model))
		return
	}
	if dt := t.GetDataType(); dt != inferencepb.DataType_TYPE_INVALID && dt != inferencepb.DataType(io.DataType) {
		c.err(path+".data_type", "write data_type: "+io.DataType.ConfigName(),
			"unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s",
			c.cfg.Name, dt, kind, t.GetName(), io.DataType.ConfigName())
	}
	if len(t.GetDims()) > 0 {
		c.compareShape(t, io, path)
	}
}

func (c *checker) compareShape(t modelTensor, io IO, path string) {
	dims, at := t.GetDims(), path+".dims"
	if t.GetReshape() != nil {
		dims, at = t.GetReshape().GetShape(), path+".reshape"
	}
	name, model := t.GetName(), tensor.FormatShape(io.Dims)
	in, isInput := t.(*inferencepb.ModelInput)
	full := dims
	if c.cfg.MaxBatchSize > 0 {
		full = append([]int64{-1}, dims...)
	}
	switch {
	case c.cfg.MaxBatchSize < 0: // said already; what it leaves of the shape nobody knows
	case isInput && in.AllowRaggedBatch:
		if !slices.Equal(io.Dims, []int64{-1}) {
			c.err(path+".allow_ragged_batch", "a ragged batch reaches the model as one dimension; remove allow_ragged_batch",
				"unable to load model '%s', configuration expects model provides input with shape [-1]  for ragged input '%s', model provides %s",
				c.cfg.Name, name, model)
		}
	case !isInput && c.cutOutput(name): // the batch output says what shape it gets
	case len(io.Dims) == 0:
		if slices.ContainsFunc(dims, func(d int64) bool { return d != 1 }) {
			c.err(at, "the model's tensor is a single number: write dims: [ 1 ]", "unable to load model '%s', scalar tensor '%s', should only provide 1 in "+
				"the model configuration when the model doesn't support batching. Model configuration provided: %s.", c.cfg.Name, name, tensor.FormatShape(dims))
		}
	case c.cfg.MaxBatchSize > 0 && io.Dims[0] != -1:
		c.err(at, fmt.Sprintf("max_batch_size is %d, and the first dimension of this tensor is fixed: set max_batch_size to 0 and write the whole shapes, here %s",
			c.cfg.MaxBatchSize, writeShape(io.Dims, t.GetReshape() != nil)),
			"model '%s', tensor '%s': for the model to support batching the shape should have at least 1 dimension and the first "+
				"dimension must be -1; but shape expected by the model is %s", c.cfg.Name, name, model)
	case !fits(full, io.Dims, !isInput):
		got := "shape " + tensor.FormatShape(full)
		if c.cfg.MaxBatchSize > 0 {
			got = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape " + tensor.FormatShape(full)
		}
		c.err(at, c.shapeFix(dims, io.Dims, t.GetReshape() != nil),
			"model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model configuration specifies %d dimensions (%s)",
			c.cfg.Name, name, len(io.Dims), model, len(full), got)
	}
}

// cutOutput reports whether a batch output cuts the output.
func (c *checker) cutOutput(name string) bool {
	return slices.ContainsFunc(c.cfg.BatchOutput, func(b *inferencepb.BatchOutput) bool { return slices.Contains(b.TargetName, name) })
}

// fits reports whether a shape of the configuration is one the model takes: same rank, and equal where the
// model's dimension is fixed. Exact means equal everywhere, as for outputs, whose shape the model chooses.
func fits(config, model []int64, exact bool) bool {
	if len(config) != len(model) {
		return false
	}
	for i, d := range model {
		if d != config[i] && (exact || d != -1) {
			return false
		}
	}
	return true
}

// writeShape writes a shape as it stands in a configuration.
func writeShape(shape []int64, reshaped bool) string {
	list := strings.ReplaceAll(strings.NewReplacer("[", "[ ", "]", " ]").Replace(tensor.FormatShape(shape)), ",", ", ")
	if reshaped {
		return "reshape { shape: " + list + " }"
	}
	return "dims: " + list
}

// shapeFix explains the batch dimension and says what to write.
func (c *checker) shapeFix(dims, model []int64, reshaped bool) string {
	if c.cfg.MaxBatchSize == 0 {
		if fits(dims, model[1:], false) {
			return fmt.Sprintf("while max_batch_size is 0 the dims are the model's whole shape, its batch dimension included: write %s, or set max_batch_size to 1 or more",
				writeShape(model, reshaped))
		}
		return "write " + writeShape(model, reshaped)
	}
	if fits(dims, model, false) {
		return fmt.Sprintf("max_batch_size is %d, so the server puts the batch dimension in front of the dims by itself: write %s without it, or set max_batch_size to 0",
			c.cfg.MaxBatchSize, writeShape(model[1:], reshaped))
	}
	return fmt.Sprintf("write %s; the batch dimension is not in dims because max_batch_size is %d", writeShape(model[1:], reshaped), c.cfg.MaxBatchSize)
}

// ioNames lists names as Triton does: sorted, with commas.
func ioNames(list []IO) string {
	names := make([]string, len(list))
	for i, io := range list {
		names[i] = io.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
