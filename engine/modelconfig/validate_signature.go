package modelconfig

import (
	"fmt"
	"slices"
	"strings"

	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// signatureChecker compares a configuration with the model file.
type signatureChecker struct {
	*checker
	sig *Signature
}

func (c signatureChecker) check() {
	sig := c.sig
	given := make(map[string]bool)
	for i, in := range c.cfg.Input {
		given[in.Name] = true
		c.compare(in, sig.Inputs, "input", indexed("input", i))
	}
	for _, extra := range c.internalInputs() {
		given[extra.name] = true
		if _, ok := find(sig.Inputs, extra.name); !ok {
			c.err(extra.path, "use the name of an input of the model: "+ioNames(sig.Inputs),
				"the model has no input %q for the %s", extra.name, extra.what)
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
	if len(missing) > 0 && len(given) != required { // if the numbers are equal, wrong names have been reported above
		c.err("input", "add the inputs "+strings.Join(missing, ", "),
			"unable to load model '%s', configuration expects %d inputs, model provides %d", c.cfg.Name, len(given),
			required)
	}
	for i, out := range c.cfg.Output {
		c.compare(out, sig.Outputs, "output", indexed("output", i))
	}
}

// compare checks one tensor of the configuration against the model's. The messages are those of Triton's
// ONNX Runtime backend.
func (c signatureChecker) compare(t modelTensor, model []IO, kind, path string) {
	if t.GetName() == "" {
		return
	}
	io, ok := find(model, t.GetName())
	if !ok {
		c.err(path+".name", didYouMean(t.GetName(), names(model), "use a name that the model has"),
			"unexpected inference %s '%s', allowed %ss are: %s", kind, t.GetName(), kind, ioNames(model))
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

func (c signatureChecker) compareShape(t modelTensor, io IO, path string) {
	dims, at := t.GetDims(), path+".dims"
	reshaped := t.GetReshape() != nil
	if reshaped {
		dims, at = t.GetReshape().GetShape(), path+".reshape"
	}
	name, model := t.GetName(), tensor.FormatShape(io.Dims)
	in, isInput := t.(*inferencepb.ModelInput)
	batched := c.cfg.MaxBatchSize > 0
	full := dims
	if batched {
		full = append([]int64{-1}, dims...)
	}
	switch {
	case c.cfg.MaxBatchSize < 0: // reported already; the shape is unknown
	case isInput && in.AllowRaggedBatch:
		if !slices.Equal(io.Dims, []int64{-1}) {
			c.err(path+".allow_ragged_batch",
				"a ragged batch reaches the model as one dimension; remove allow_ragged_batch",
				"unable to load model '%s', configuration expects model provides input with "+
					"shape [-1]  for ragged input '%s', model provides %s", c.cfg.Name, name, model)
		}
	case !isInput && hasBatchOutput(c.cfg, name): // it has the shape of an input
	case len(io.Dims) == 0:
		if slices.ContainsFunc(dims, func(d int64) bool { return d != 1 }) {
			c.err(at, "the model's tensor is a single number: write dims: [ 1 ]",
				"unable to load model '%s', scalar tensor '%s', should only provide 1 in the model "+
					"configuration when the model doesn't support batching. Model configuration provided: %s.",
				c.cfg.Name, name, tensor.FormatShape(dims))
		}
	case batched && io.Dims[0] != -1:
		fix := fmt.Sprintf("max_batch_size is %d, and the first dimension of this tensor is fixed: "+
			"set max_batch_size to 0, list all inputs and outputs, and write the whole shapes, here %s",
			c.cfg.MaxBatchSize, writeShape(io.Dims, reshaped))
		c.err(at, fix, "model '%s', tensor '%s': for the model to support batching the shape should have at least "+
			"1 dimension and the first dimension must be -1; but shape expected by the model is %s",
			c.cfg.Name, name, model)
	case !fits(full, io.Dims, !isInput):
		got := "shape " + tensor.FormatShape(full)
		if batched {
			got = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, " +
				"making complete " + got
		}
		c.err(at, c.shapeFix(dims, io.Dims, reshaped),
			"model '%s', tensor '%s': the model expects %d dimensions (shape %s) but the model "+
				"configuration specifies %d dimensions (%s)", c.cfg.Name, name, len(io.Dims), model, len(full), got)
	}
}

// hasBatchOutput reports whether an output is the target of a batch output.
func hasBatchOutput(cfg *inferencepb.ModelConfig, name string) bool {
	return slices.ContainsFunc(cfg.BatchOutput,
		func(b *inferencepb.BatchOutput) bool { return slices.Contains(b.TargetName, name) })
}

// fits reports whether the model accepts a shape of the configuration: the rank is the same, and the dimensions are
// equal where the model's is fixed. exact: all dimensions must be equal. This is for outputs, whose shape the model
// chooses. A configuration cannot contain the dimension 0 and has -1 instead.
func fits(config, model []int64, exact bool) bool {
	if len(config) != len(model) {
		return false
	}
	for i, d := range model {
		if d != config[i] && (exact || d != -1) && (d != 0 || config[i] != -1) {
			return false
		}
	}
	return true
}

// writeShape formats a shape as in a configuration.
func writeShape(shape []int64, reshaped bool) string {
	list := strings.ReplaceAll(strings.NewReplacer("[", "[ ", "]", " ]").Replace(tensor.FormatShape(shape)), ",", ", ")
	if reshaped {
		return "reshape { shape: " + list + " }"
	}
	return "dims: " + list
}

// shapeFix explains the batch dimension and says what to write.
func (c signatureChecker) shapeFix(dims, model []int64, reshaped bool) string {
	n := c.cfg.MaxBatchSize
	if n == 0 {
		want := writeShape(model, reshaped)
		if fits(dims, model[1:], false) {
			return "while max_batch_size is 0 the dims are the model's whole shape, " +
				"its batch dimension included: write " + want + ", or set max_batch_size to 1 or more"
		}
		return "write " + want
	}
	want := writeShape(model[1:], reshaped)
	if fits(dims, model, false) {
		return fmt.Sprintf("max_batch_size is %d, so the server puts the batch dimension in front of the dims "+
			"by itself: write %s without it, or set max_batch_size to 0 and list all inputs and outputs", n, want)
	}
	return fmt.Sprintf("write %s; the batch dimension is not in dims because max_batch_size is %d", want, n)
}

func names(list []IO) []string {
	all := make([]string, len(list))
	for i, io := range list {
		all[i] = io.Name
	}
	return all
}

// ioNames lists names as Triton does: sorted, with commas.
func ioNames(list []IO) string { return strings.Join(slices.Sorted(slices.Values(names(list))), ", ") }
