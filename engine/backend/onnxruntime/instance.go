package onnxruntime

import (
	"context"
	"slices"

	"nereid/engine/backend/batchio"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// instance runs batches on a session, one at a time. Everything in it is used by the one goroutine in Execute, but
// watch looks at long runs.
type instance struct {
	m      *model
	owned  *capi.Session // closed with the instance; nil if it is shared
	runner *capi.Runner
	watch  *watch
	card   *card // nil: it is on no GPU, or has none of its memory

	scratch []capi.Scratch // one per input: the rows of several requests together, or small ones
	small   []capi.Scratch // one per output whose shape is known: its rows
	gives   bool           // small outputs are written to memory of ours
	gave    bool           // some are in this run
	wanted  []bool         // one per output: somebody in this batch wants it
	places  []int          // one per output: its place among the run's outputs
	shape   []int64

	responses []*infer.Response
}

// keepScratch is how much memory an input's scratch may keep between batches.
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
	card := newCard(m, runner, where, nodes)
	return &instance{
		m: m, runner: runner, watch: newWatch(runner), card: card, gives: !where.gpu || card != nil,
		scratch: make([]capi.Scratch, len(in)), small: make([]capi.Scratch, len(out)), wanted: make([]bool, len(out)),
		places: make([]int, len(out)),
	}, nil
}

// Close frees what the instance has; answers that are still being read stay.
func (x *instance) Close() error {
	x.watch.stop()
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

// Execute runs the batch at once where all its requests have the same inputs and the same shapes but for the rows, else
// in as many parts as that takes.
func (x *instance) Execute(ctx context.Context, b *infer.Batch) error {
	for rest := b.Requests; len(rest) > 0; {
		n := 1
		if x.m.batched {
			n = batchio.Run(rest, x.alike)
		}
		x.part(ctx, b, rest[:n])
		rest = rest[n:]
	}
	return nil
}

// part runs requests together and answers each of them.
func (x *instance) part(ctx context.Context, b *infer.Batch, requests []*infer.Request) {
	err := x.run(ctx, b, requests)
	if err == nil {
		return
	}
	if len(requests) == 1 || status.CodeOf(err) == status.Cancelled {
		for _, r := range requests {
			r.Fail(err)
		}
		return
	}
	// One request's values may have failed the others': each gets the answer that it would get alone.
	for i := range requests {
		if !requests[i].Answered() {
			x.part(ctx, b, requests[i:i+1])
		}
	}
}

// run runs requests together. On nil each is answered; on an error none, unless the error came while answering.
func (x *instance) run(ctx context.Context, b *infer.Batch, requests []*infer.Request) error {
	x.runner.Reset()
	if x.card != nil {
		defer x.card.end()
	}
	for i := range x.m.inputs {
		if err := x.gather(i, requests); err != nil {
			return err
		}
	}
	if err := x.choose(requests); err != nil {
		return err
	}
	b.MarkInput()
	x.watch.begin(ctx, b)
	err := x.runner.Run()
	if x.watch.end() { // it was stopped; perhaps too late to matter
		if resumed := x.runner.Resume(); resumed != nil {
			return runtimeError(resumed)
		}
		if err != nil {
			return status.New(status.Cancelled, "request cancelled")
		}
	}
	if err != nil && x.gives && x.gave {
		return x.runWithoutGiving(ctx, b, requests)
	}
	b.MarkOutput()
	if err != nil {
		return runtimeError(err)
	}
	defer x.tidy()
	return x.answer(requests)
}

// runWithoutGiving runs again what has failed, without memory for its outputs: they may have other shapes than the file
// says, for which versions of onnxruntime have their own texts. If that was why, no more memory is given.
func (x *instance) runWithoutGiving(ctx context.Context, b *infer.Batch, requests []*infer.Request) error {
	x.gives = false
	if x.card != nil {
		x.card.end() // what the failed run was to write to
	}
	err := x.run(ctx, b, requests)
	x.gives = err != nil
	return err
}

// tidy lets go of what the run left.
func (x *instance) tidy() {
	x.runner.DiscardAll()
	for i := range x.scratch {
		if x.scratch[i].Cap() > keepScratch {
			x.scratch[i].Free()
		}
	}
}

// input finds a request's input, at the same place as in the configuration if the caller keeps its order.
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

// gather gives the run input i of the requests: in place for one request whose data is aligned, else copied together.
func (x *instance) gather(i int, requests []*infer.Request) error {
	p := &x.m.inputs[i]
	if p.made != nil {
		return x.make(i, requests)
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
	size, err := x.together(i, requests)
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
	if p.scalar {
		x.shape = x.shape[:0] // its [1] is the configuration's way to write a scalar
	}
	if x.card != nil {
		if done, err := x.onCard(i, requests, size, count); done || err != nil {
			return err
		}
	}
	data := first.Data
	stays := len(requests) > 1 || size <= copyLimit && p.dt != tensor.Bytes || !aligned(data, p.dt.Size()) ||
		len(data) < size
	if stays {
		if data, err = x.gathered(i, requests, size); err != nil {
			return err
		}
	}
	if err := x.runner.AddInput(i, p.code, x.shape, count, data, stays); err != nil {
		return status.Errorf(status.InvalidArg, "input '%s': %w", p.name, err)
	}
	return nil
}

// gathered copies the requests' input i together.
func (x *instance) gathered(i int, requests []*infer.Request, size int) ([]byte, error) {
	data, err := x.room(i, size)
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
	return data, nil
}

// room returns memory for size bytes of input i, until the run is over.
func (x *instance) room(i, size int) ([]byte, error) {
	if x.card != nil {
		if b := x.card.input(size); b != nil {
			return b, nil
		}
	}
	data, err := x.scratch[i].Get(size)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	return data, nil
}

// together leaves the shape of the requests' input i in x.shape and returns its size in bytes.
func (x *instance) together(i int, requests []*infer.Request) (size int, err error) {
	if x.m.inputs[i].ragged {
		total := int64(0)
		for _, r := range requests {
			in := x.input(r, i)
			n, err := tensor.Elements(in.Shape)
			if err != nil {
				return 0, err
			}
			total += n
			size += in.Size()
		}
		x.shape = append(x.shape[:0], total)
		return size, nil
	}
	for k, r := range requests {
		in := x.input(r, i)
		size += in.Size()
		if k == 0 {
			x.shape = append(x.shape[:0], in.Shape...)
		} else {
			x.shape[0] += in.Shape[0]
		}
	}
	return size, nil
}

// make gives the run batch input i.
func (x *instance) make(i int, requests []*infer.Request) (err error) {
	p := &x.m.inputs[i]
	if x.shape, err = p.made.Shape(x.shape[:0], requests); err != nil {
		return err
	}
	count, err := tensor.Elements(x.shape)
	if err != nil {
		return err
	}
	data, err := x.room(i, int(count)*p.dt.Size())
	if err != nil {
		return err
	}
	if err := p.made.Fill(data, requests); err != nil {
		return err
	}
	if err := x.runner.AddInput(i, p.code, x.shape, count, data, true); err != nil {
		return status.Errorf(status.InvalidArg, "batch input '%s': %w", p.name, err)
	}
	return nil
}

// choose asks the run for the outputs that anybody wants, and for the states: small ones of a known shape into memory
// of ours, which saves making and freeing a value for each run.
func (x *instance) choose(requests []*infer.Request) error {
	rows := infer.Rows(requests)
	n := 0
	x.gave = false
	for i := range x.m.outputs {
		p := &x.m.outputs[i]
		x.wanted[i] = p.state || slices.ContainsFunc(requests, p.isWanted)
		if !x.wanted[i] {
			continue
		}
		x.places[i] = n
		n++
		size := p.each
		if x.m.batched {
			size *= rows
		}
		if x.card != nil {
			x.toCard(i, requests, int(size))
			continue
		}
		if !x.gives || size <= 0 || size > copyLimit {
			x.runner.AddOutput(i)
			continue
		}
		data, err := x.small[i].Get(int(size))
		if err != nil {
			return status.Errorf(status.Unavailable, "%w", err)
		}
		x.shape = append(x.shape[:0], p.whole...)
		if x.m.batched {
			x.shape[0] = rows
		}
		x.gave = true
		x.runner.AddOutputTo(i, p.code, x.shape, data)
	}
	return nil
}

// isWanted reports whether a request wants the output in its answer.
func (p *port) isWanted(r *infer.Request) bool { return !p.hidden && r.Wants(p.name) }
