package builtin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// All returns the backends of this package.
func All() []backend.Backend {
	return []backend.Backend{Identity(), Repeat(), Square(), AddSub(), Sequence(), DynaSequence(), IterativeSequence()}
}

// dataType converts a configured datatype. Both types use the same numbers.
func dataType(d inferencepb.DataType) tensor.DataType { return tensor.DataType(d) }

// millis reads a parameter in milliseconds. The default is 0.
func millis(c *inferencepb.ModelConfig, name string) (time.Duration, error) {
	p, ok := c.GetParameters()[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(p.GetStringValue(), 10, 31)
	if err != nil {
		return 0, status.Errorf(status.InvalidArg, "parameter %q is %q, want a number of milliseconds like \"100\"",
			name, p.GetStringValue())
	}
	return time.Duration(n) * time.Millisecond, nil
}

// count reads a parameter that is an integer from low to 1000, or returns the value of missing if it is not set.
func count(c *inferencepb.ModelConfig, name string, missing, low int) (int, error) {
	p, ok := c.GetParameters()[name]
	if !ok {
		return missing, nil
	}
	n, err := strconv.Atoi(p.GetStringValue())
	if err != nil || n < low || n > 1000 {
		return 0, status.Errorf(status.InvalidArg, "parameter %q is %q, want a number from %d to 1000", name,
			p.GetStringValue(), low)
	}
	return n, nil
}

// pause waits for d. It returns early with the error of ctx, or with Cancelled when all requests are cancelled.
func pause(ctx context.Context, d time.Duration, requests ...*infer.Request) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for _, r := range requests {
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Done():
		}
	}
	if len(requests) > 0 {
		return errCancelled
	}
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errCancelled = status.New(status.Cancelled, "request cancelled")

// find returns the configured input or output with a name, the zero value if there is none.
func find[T configuredIO](list []T, name string) (found T) {
	if i := slices.IndexFunc(list, func(x T) bool { return x.GetName() == name }); i >= 0 {
		found = list[i]
	}
	return found
}

// configuredIO is an inferencepb.ModelInput or ModelOutput.
type configuredIO interface {
	GetName() string
	GetDataType() inferencepb.DataType
	GetDims() []int64
}

// checkIO compares a configured tensor with the one that a backend requires.
func checkIO(kind string, want ioSpec, got configuredIO) error {
	if got.GetName() != want.name {
		return status.Errorf(status.InvalidArg, "expected %s tensor name to be %s, got %s", kind, want.name,
			got.GetName())
	}
	if dt := got.GetDataType(); dataType(dt) != want.dt {
		return status.Errorf(status.InvalidArg, "expected %s datatype to be %s, got %s", want.name,
			want.dt.ConfigName(), dt)
	}
	if dims := got.GetDims(); len(dims) != 1 || want.dim != -1 && dims[0] != want.dim {
		return status.Errorf(status.InvalidArg, "expected %s shape to be [%d], got %s", want.name, want.dim,
			tensor.FormatShape(dims))
	}
	return nil
}

// ioSpec is a tensor that a backend requires. It has one dimension; -1 allows any size.
type ioSpec struct {
	name string
	dt   tensor.DataType
	dim  int64
}

// checkFixed compares a configuration with a backend's inputs and outputs. It refuses batching.
func checkFixed(name string, c *inferencepb.ModelConfig, inputs, outputs []ioSpec) error {
	if c.GetMaxBatchSize() != 0 {
		return status.Errorf(status.InvalidArg, "%s backend only supports models with max_batch_size == 0", name)
	}
	if len(c.GetInput()) != len(inputs) {
		return status.Errorf(status.InvalidArg, "expected %d inputs, got %d", len(inputs), len(c.GetInput()))
	}
	if len(c.GetOutput()) != len(outputs) {
		return status.Errorf(status.InvalidArg, "expected %d outputs, got %d", len(outputs), len(c.GetOutput()))
	}
	for i, in := range c.GetInput() {
		if err := checkIO("input", inputs[i], in); err != nil {
			return err
		}
	}
	for i, out := range c.GetOutput() {
		if err := checkIO("output", outputs[i], out); err != nil {
			return err
		}
	}
	return nil
}
