package onnxruntime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nereid/engine/backend/batchio"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// instance runs batches on a session, one at a time. Only the goroutine in Execute uses its fields, except canceller.
type instance struct {
	m         *model
	owned     *capi.Session // closed with the instance; nil if the session is shared
	runner    *capi.Runner
	canceller *canceller
	gpu       *gpuMemory // nil on a CPU, and on a server without GPU memory

	scratch []capi.Scratch // by input: concatenated or small data
	small   []capi.Scratch // by output: preallocated memory of a small output of known shape

	steady *steadyRows // nil: runs have the rows of the requests
	rows   int         // of this run
	fill   int         // how many of them are copies of the last row of the requests

	preallocate  bool  // the model writes outputs of known shape to memory of the server
	preallocated bool  // it does so for at least one output of this run
	index        []int // by output: its index among the outputs of this run, -1 if it is not requested
	shape        []int64
	outputDims   []int64 // the shape of an output of strings

	responses []*infer.Response

	strings int64 // bytes of the budget that string inputs of this run took
}

// keepScratch is the most memory, in bytes, that an input's scratch keeps between batches.
const keepScratch = 64 << 20

func newInstance(m *model, session *capi.Session, where place, nodes []int) (*instance, error) {
	var in, out []string
	for i := range m.inputs {
		in = append(in, m.inputs[i].name)
	}
	for i := range m.outputs {
		out = append(out, m.outputs[i].name)
	}
	runner, err := session.NewRunner(in, out, m.run)
	if err != nil {
		return nil, runtimeError(err)
	}
	gpu := newGPUMemory(m, runner, where, nodes)
	return &instance{
		m: m, runner: runner, canceller: newCanceller(runner), gpu: gpu, preallocate: !where.gpu || gpu != nil,
		steady:  m.steady(session, where),
		scratch: make([]capi.Scratch, len(in)), small: make([]capi.Scratch, len(out)), index: make([]int, len(out)),
	}, nil
}

// Close frees the instance. Responses that are still being read keep their memory.
func (x *instance) Close() error {
	x.runner.Close()
	for i := range x.scratch {
		x.scratch[i].Free()
	}
	for i := range x.small {
		x.small[i].Free()
	}
	if x.owned != nil {
		x.m.closeSession(x.owned)
	}
	return nil
}

// Execute runs requests together that have the same inputs with the same shapes, except for the number of rows.
func (x *instance) Execute(ctx context.Context, b *infer.Batch) error {
	for rest := b.Requests; len(rest) > 0; {
		n := 1
		if x.m.batched {
			n = batchio.Run(rest, x.alike)
		}
		x.executeTogether(ctx, b, rest[:n])
		rest = rest[n:]
	}
	return nil
}

// executeTogether runs requests in one run and responds to each of them. If the run fails, each request is run
// separately: the values of one may have failed the others.
func (x *instance) executeTogether(ctx context.Context, b *infer.Batch, requests []*infer.Request) {
	err := x.run(ctx, b, requests)
	if err != nil && x.fill > 0 && status.CodeOf(err) != status.Cancelled && !requests[0].Answered() {
		err = x.runUnfilled(ctx, b, requests)
	}
	if err == nil {
		return
	}
	if len(requests) == 1 || status.CodeOf(err) == status.Cancelled {
		for _, r := range requests {
			r.Fail(err)
		}
		return
	}
	for i := range requests {
		if !requests[i].Answered() {
			x.executeTogether(ctx, b, requests[i:i+1])
		}
	}
}

// run runs requests together. On nil, each has its response. On an error none has one, unless sending a response
// failed.
func (x *instance) run(ctx context.Context, b *infer.Batch, requests []*infer.Request) error {
	x.runner.Reset()
	defer x.giveStrings()
	x.takeRows(requests)
	if x.gpu != nil {
		defer x.gpu.endRun()
	}
	for i := range x.m.inputs {
		if err := x.addInput(i, requests); err != nil {
			return err
		}
	}
	if err := x.requestOutputs(requests); err != nil {
		return err
	}
	b.MarkInput()
	x.canceller.begin(ctx, b)
	err := x.runner.Run()
	if x.canceller.end() { // the run may have succeeded before it was terminated
		if resumed := x.runner.Resume(); resumed != nil {
			return runtimeError(resumed)
		}
		if err != nil {
			return status.New(status.Cancelled, "request cancelled")
		}
	}
	if err != nil && x.preallocate && x.preallocated {
		return x.runWithoutPreallocation(ctx, b, requests)
	}
	b.MarkOutput()
	if err != nil {
		return runtimeError(err)
	}
	defer x.freeRun()
	return x.respond(requests)
}

// runWithoutPreallocation repeats a failed run without preallocated outputs. The outputs may have other shapes than the
// model file declares; each version of onnxruntime reports that with another text. If the repeated run succeeds, no
// outputs of this instance are preallocated any more.
func (x *instance) runWithoutPreallocation(ctx context.Context, b *infer.Batch, requests []*infer.Request) error {
	x.preallocate = false
	x.giveStrings() // the repeated run takes its own
	if x.gpu != nil {
		x.gpu.endRun() // the failed one
	}
	err := x.run(ctx, b, requests)
	x.preallocate = err != nil
	return err
}

// freeRun releases outputs that no response uses, and large scratch memory.
func (x *instance) freeRun() {
	x.runner.DiscardAll()
	for i := range x.scratch {
		if x.scratch[i].Cap() > keepScratch {
			x.scratch[i].Free()
		}
	}
}

// input returns a request's input i, or nil. Most callers send the inputs in the order of the configuration.
func (x *instance) input(r *infer.Request, i int) *tensor.Tensor {
	if i < len(r.Inputs) && r.Inputs[i].Name == x.m.inputs[i].name {
		return &r.Inputs[i]
	}
	return r.Input(x.m.inputs[i].name)
}

// alike reports whether two requests can be run together.
func (x *instance) alike(a, b *infer.Request) bool {
	for i := range x.m.inputs {
		if !batchio.Joins(x.input(a, i), x.input(b, i), x.m.inputs[i].ragged) {
			return false
		}
	}
	return true
}

// addInput adds input i of the requests to the run. The data of a single request is used in place if it is aligned;
// small data and the data of several requests is copied.
func (x *instance) addInput(i int, requests []*infer.Request) error {
	p := &x.m.inputs[i]
	if p.batchInput != nil {
		return x.addBatchInput(i, requests)
	}
	first := x.input(requests[0], i)
	if first == nil {
		if p.optional {
			return nil
		}
		return status.Errorf(status.InvalidArg, "model '%s' needs the input '%s'", x.m.spec.ModelName, p.name)
	}
	if first.DataType != p.dt {
		return status.Errorf(status.InvalidArg, "input '%s' of model '%s' has datatype %s, want %s", p.name,
			x.m.spec.ModelName, first.DataType, p.dt)
	}
	size, err := x.inputShape(i, requests)
	if err != nil {
		return err
	}
	count, err := tensor.Elements(x.shape)
	if err != nil {
		return err
	}
	if each := p.dt.Size(); each != 0 && int64(size)/int64(each) != count {
		return status.Errorf(status.InvalidArg, "input '%s' of model '%s' has %d bytes for shape %s of %s",
			p.name, x.m.spec.ModelName, size, tensor.FormatShape(x.shape), p.dt)
	}
	if count == 0 {
		if err := x.checkEmpty(p.name); err != nil {
			return err
		}
	}
	if p.scalar {
		x.shape = x.shape[:0] // a scalar is configured as [1]
	}
	if x.gpu != nil {
		if done, err := x.addDeviceInput(i, requests, size, count); done || err != nil {
			return err
		}
	}
	data := first.Data
	copied := len(requests) > 1 || size <= copyLimit && p.dt != tensor.Bytes || !aligned(data, p.dt.Size()) ||
		len(data) < size // it is on a GPU, or filled up
	if copied {
		if data, err = x.concatenate(i, requests, size); err != nil {
			return err
		}
	}
	if err := x.takeStrings(p, size, count); err != nil {
		return err
	}
	if err := x.runner.AddInput(i, p.code, x.shape, count, data, copied); err != nil {
		return status.Errorf(status.InvalidArg, "input '%s': %w", p.name, err)
	}
	return nil
}

const (
	// stringMemory is what ONNX Runtime needs for a string beside its bytes: an object of 32 bytes in the input, and
	// one in an output of the same shape.
	stringMemory = 64
	// fewStrings is the memory in bytes up to which strings are not counted.
	fewStrings = 64 << 10
	// stringPatience is how long a run waits for memory.
	stringPatience = time.Second
)

// takeStrings takes the memory that an input needs as strings from the budget. A client can send an empty string in
// four bytes.
func (x *instance) takeStrings(p *port, size int, count int64) error {
	need := count*stringMemory + 2*int64(size)
	if p.dt != tensor.Bytes || need <= fewStrings {
		return nil
	}
	if err := x.m.strings.Take(need, stringPatience); err != nil {
		return fmt.Errorf("the %d strings of input '%s': %w", count, p.name, err)
	}
	x.strings += need
	return nil
}

// giveStrings gives back what takeStrings took.
func (x *instance) giveStrings() {
	x.m.strings.Give(x.strings)
	x.strings = 0
}

// maxEmpty bounds the product of the dimensions other than 0 of a tensor without elements. An operator may make as many
// elements of its shape, for which the client has sent nothing.
const maxEmpty = 1 << 24

// checkEmpty refuses an input without elements, of the shape x.shape, that could end the process or show the memory of
// other requests. The latter is only so with ONNX Runtime's own allocators: memory.c clears what it gives.
func (x *instance) checkEmpty(name string) error {
	if op := x.m.info.NoEmpty; op != "" {
		return status.Errorf(status.InvalidArg, "input '%s' of model '%s' has no elements (shape %s), with which the "+
			"model's operator %s would abort or hang the process; send at least one", name, x.m.spec.ModelName,
			tensor.FormatShape(x.shape), op)
	}
	if op := x.m.info.Unwritten(); op != "" && !sharesMemory(x.m.spec.Config) {
		return status.Errorf(status.InvalidArg, "input '%s' of model '%s' has no elements (shape %s), with which the "+
			"model's operator %s could answer with memory of other requests; take the parameters for the arena out of "+
			"the configuration", name, x.m.spec.ModelName, tensor.FormatShape(x.shape), op)
	}
	product := int64(1)
	for _, d := range x.shape {
		if product *= max(d, 1); product > maxEmpty { // before it overflows: Elements has checked it
			return status.Errorf(status.InvalidArg, "input '%s' of model '%s' has no elements (shape %s), and its "+
				"other dimensions multiply to more than %d; send smaller ones", name, x.m.spec.ModelName,
				tensor.FormatShape(x.shape), maxEmpty)
		}
	}
	return nil
}

// concatenate copies the requests' data of input i, of size bytes together, and fills it up.
func (x *instance) concatenate(i int, requests []*infer.Request, size int) ([]byte, error) {
	data, err := x.inputMemory(i, size)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, r := range requests {
		in := x.input(r, i)
		if d := in.OnDevice(); d != nil {
			if err := d.ReadAll(data[at:]); err != nil {
				return nil, err
			}
			at += d.Size
			continue
		}
		at += copy(data[at:], in.Data)
	}
	if x.fill > 0 {
		for row := size / x.rows; at < size; at += row {
			copy(data[at:], data[at-row:at])
		}
	}
	return data, nil
}

// inputMemory returns memory for size bytes of input i, valid until the end of the run.
func (x *instance) inputMemory(i, size int) ([]byte, error) {
	if x.gpu != nil {
		if b := x.gpu.pinnedInput(size); b != nil {
			return b, nil
		}
	}
	data, err := x.scratch[i].Get(size)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	return data, nil
}

// inputShape stores the shape of input i, for the run, in x.shape. It returns the size in bytes.
func (x *instance) inputShape(i int, requests []*infer.Request) (size int, err error) {
	ragged, total := x.m.inputs[i].ragged, int64(0)
	for k, r := range requests {
		in := x.input(r, i)
		size += in.Size()
		switch {
		case ragged:
			n, err := tensor.Elements(in.Shape)
			if err != nil {
				return 0, err
			}
			total += n
		case k == 0:
			x.shape = append(x.shape[:0], in.Shape...)
		default:
			x.shape[0] += in.Shape[0]
		}
	}
	if ragged {
		x.shape = append(x.shape[:0], total)
	}
	if x.fill > 0 {
		size = size / int(x.shape[0]) * x.rows
		x.shape[0] = int64(x.rows)
	}
	return size, nil
}

// addBatchInput computes input i, which the configuration lists as a batch_input, and adds it to the run.
func (x *instance) addBatchInput(i int, requests []*infer.Request) (err error) {
	p := &x.m.inputs[i]
	if x.shape, err = p.batchInput.Shape(x.shape[:0], requests); err != nil {
		return err
	}
	count, err := tensor.Elements(x.shape)
	if err != nil {
		return err
	}
	data, err := x.inputMemory(i, int(count)*p.dt.Size())
	if err != nil {
		return err
	}
	if err := p.batchInput.Fill(data, requests); err != nil {
		return err
	}
	if err := x.runner.AddInput(i, p.code, x.shape, count, data, true); err != nil {
		return status.Errorf(status.InvalidArg, "batch input '%s': %w", p.name, err)
	}
	return nil
}

// requestOutputs requests the outputs that any request wants, and the states. Small outputs of known shape are written
// to preallocated memory, which saves making and freeing a value for each run.
func (x *instance) requestOutputs(requests []*infer.Request) error {
	n := 0
	x.preallocated = false
	for i := range x.m.outputs {
		p := &x.m.outputs[i]
		x.index[i] = -1
		if !p.state && !slices.ContainsFunc(requests, p.isWanted) {
			continue
		}
		x.index[i] = n
		n++
		size := p.rowSize
		if x.m.batched {
			size *= int64(x.rows)
		}
		if x.gpu != nil {
			x.requestGPUOutput(i, requests, int(size))
			continue
		}
		if !x.preallocate || size <= 0 || size > copyLimit {
			x.runner.AddOutput(i)
			continue
		}
		data, err := x.small[i].Get(int(size))
		if err != nil {
			return status.Errorf(status.Unavailable, "%w", err)
		}
		x.preallocatedShape(p)
		x.preallocated = true
		x.runner.AddOutputTo(i, p.code, x.shape, data)
	}
	return nil
}

// preallocatedShape stores the shape of an output of known shape in x.shape.
func (x *instance) preallocatedShape(p *port) {
	x.shape = append(x.shape[:0], p.known...)
	if x.m.batched {
		x.shape[0] = int64(x.rows)
	}
}

// isWanted reports whether a request wants the output in its response.
func (p *port) isWanted(r *infer.Request) bool { return !p.hidden && r.Wants(p.name) }
