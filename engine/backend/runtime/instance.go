package runtime

import (
	"context"
	"errors"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/backend/batchio"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// runner runs a loaded model, one run at a time.
type runner interface {
	// Put sets input i of the next run to the concatenated bytes of all parts (strings in Triton's format). The caller
	// does not change them until Reset.
	Put(i int, shape []int64, parts [][]byte) error
	// Run computes the outputs with these indexes from the inputs that were set since Reset.
	Run(want []int) error
	// Output describes output k of those that the last run computed; data is nil for strings.
	Output(k int) (dt tensor.DataType, shape []int64, data []byte, size int, err error)
	// Strings writes output k in Triton's format into buf, which has its size.
	Strings(k int, buf []byte)
	// Keep keeps output k: its data is valid until free is called, or until the next run if runs overwrite outputs.
	Keep(k int) (free func())
	// Reset releases the inputs, and the outputs that were not kept.
	Reset()
	Close()
}

// port is an input or output of the configuration, and of the model.
type port struct {
	name     string
	dt       tensor.DataType
	dims     []int64 // the configured shape of a scalar output that is not reshaped
	optional bool
	scalar   bool // the model's input has no dimensions
	ragged   bool
	made     *batchio.Input
	cut      *batchio.Output
}

// ports returns the inputs and outputs of a configuration: controls and batch inputs are inputs too.
func ports(c *inferencepb.ModelConfig) (in, out []port) {
	plan := batchio.New(c)
	for _, i := range c.GetInput() {
		in = append(in, port{name: i.GetName(), dt: tensor.DataType(i.GetDataType()), optional: i.GetOptional(),
			ragged: plan.Ragged(i.GetName())})
	}
	for _, ctl := range c.GetSequenceBatching().GetControlInput() {
		in = append(in, port{name: ctl.GetName()})
	}
	for _, b := range c.GetBatchInput() {
		for _, name := range b.GetTargetName() {
			in = append(in, port{name: name, made: plan.Input(name)})
		}
	}
	for _, o := range c.GetOutput() {
		p := port{name: o.GetName(), dt: tensor.DataType(o.GetDataType()), cut: plan.Output(o.GetName())}
		if o.GetReshape() == nil {
			p.dims = o.GetDims()
		}
		out = append(out, p)
	}
	return in, out
}

// names returns the names of ports.
func names(list []port) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = list[i].name
	}
	return all
}

// instance runs batches, one at a time.
type instance struct {
	spec       backend.Spec
	in, out    []port
	runner     runner
	overwrites bool // a run overwrites the outputs of the last one, and needs all inputs
	pad        int  // the rows that every run has; 0: as many as there are
	exact      bool // batches of other sizes are refused, not filled up
	batched    bool
	pool       tensor.Pool
	close      func() // frees what the runner uses

	// wholeBatch: all requests of the batch are in this run. Then outputs that the next run overwrites are not copied:
	// the process sends the responses of an execution before the next one begins.
	wholeBatch bool
	parts      [][]byte
	shape      []int64
	want       []int
	zeros      []byte
	made       []*tensor.Buffer // of the run's batch inputs
	responses  []*infer.Response
}

func newInstance(s backend.Spec, r runner) *instance {
	x := &instance{spec: s, runner: r, batched: s.Config.GetMaxBatchSize() > 0, close: func() {}}
	x.in, x.out = ports(s.Config)
	return x
}

// Close frees the runner and what it uses.
func (x *instance) Close() error {
	x.runner.Close()
	x.close()
	return nil
}

// Execute runs consecutive requests together that have the same inputs, with the same shapes except for the rows.
func (x *instance) Execute(_ context.Context, b *infer.Batch) error {
	for rest := b.Requests; len(rest) > 0; {
		n := 1
		if x.batched {
			n = batchio.Run(rest, x.alike)
		}
		x.wholeBatch = n == len(b.Requests)
		x.part(b, rest[:n])
		rest = rest[n:]
	}
	return nil
}

// part runs some of a batch's requests together and answers each of them.
func (x *instance) part(b *infer.Batch, requests []*infer.Request) {
	err := x.run(b, requests)
	x.runner.Reset()
	for _, buf := range x.made {
		buf.Release()
	}
	x.made = x.made[:0]
	if err == nil {
		return
	}
	if len(requests) == 1 {
		requests[0].Fail(err)
		return
	}
	// One request's values may have failed the others': each gets the answer that it would get alone.
	x.wholeBatch = false
	for i := range requests {
		if !requests[i].Answered() {
			x.part(b, requests[i:i+1])
		}
	}
}

func (x *instance) run(b *infer.Batch, requests []*infer.Request) error {
	for i := range x.in {
		if err := x.put(i, requests); err != nil {
			return err
		}
	}
	x.want = x.want[:0]
	for i := range x.out {
		if slices.ContainsFunc(requests, func(r *infer.Request) bool { return r.Wants(x.out[i].name) }) {
			x.want = append(x.want, i)
		}
	}
	b.MarkInput()
	err := x.runner.Run(x.want)
	b.MarkOutput()
	if err != nil {
		return coded(err)
	}
	return x.answer(requests)
}

// coded returns a library's error with the status code that it carries, else with Internal.
func coded(err error) error {
	var own interface{ Status() status.Code }
	if errors.As(err, &own) {
		return status.Errorf(own.Status(), "%w", err)
	}
	return status.Errorf(status.CodeOf(err), "%w", err)
}

// alike reports whether two requests can be run together.
func (x *instance) alike(a, b *infer.Request) bool {
	for i := range x.in {
		p := &x.in[i]
		if p.made == nil && !batchio.Joins(a.Input(p.name), b.Input(p.name), p.ragged) {
			return false
		}
	}
	return true
}

// put sets input i of the run from the requests.
func (x *instance) put(i int, requests []*infer.Request) error {
	p := &x.in[i]
	if p.made != nil {
		return x.putMade(i, requests)
	}
	x.parts = x.parts[:0]
	total := int64(0)
	for k, r := range requests {
		in := r.Input(p.name)
		if in == nil {
			if p.optional && !x.overwrites {
				return nil
			}
			return status.Errorf(status.InvalidArg, "model '%s' needs the input '%s'", x.spec.ModelName, p.name)
		}
		x.parts = append(x.parts, in.Data)
		switch {
		case p.ragged:
			n, err := tensor.Elements(in.Shape)
			if err != nil {
				return err
			}
			total += n
			x.shape = append(x.shape[:0], total)
		case k == 0:
			x.shape = append(x.shape[:0], in.Shape...)
		default:
			x.shape[0] += in.Shape[0]
		}
	}
	if p.scalar {
		x.shape = x.shape[:0] // its [1] is the configuration's way to write a scalar
	}
	if err := x.fill(p); err != nil {
		return err
	}
	if err := x.runner.Put(i, x.shape, x.parts); err != nil {
		return status.Errorf(status.CodeOf(coded(err)), "input '%s' of model '%s': %w", p.name, x.spec.ModelName, err)
	}
	return nil
}

// fill adds rows of zeros up to the fixed batch size.
func (x *instance) fill(p *port) error {
	if x.pad == 0 || len(x.shape) == 0 || x.shape[0] >= int64(x.pad) {
		return nil
	}
	missing := int64(x.pad) - x.shape[0]
	if x.exact {
		return status.Errorf(status.InvalidArg,
			"model '%s' takes batches of %d and got %d; set the parameter ENABLE_BATCH_PADDING to YES to have them "+
				"filled up", x.spec.ModelName, x.pad, x.shape[0])
	}
	each := int64(1)
	for _, d := range x.shape[1:] {
		each *= d
	}
	size := p.dt.Size()
	if p.dt == tensor.Bytes {
		size = 4 // an empty text
	}
	if n := int(missing * each * int64(size)); n > len(x.zeros) {
		x.zeros = make([]byte, n)
	}
	x.parts = append(x.parts, x.zeros[:missing*each*int64(size)])
	x.shape[0] = int64(x.pad)
	return nil
}

// putMade sets batch input i of the run.
func (x *instance) putMade(i int, requests []*infer.Request) (err error) {
	p := &x.in[i]
	if x.shape, err = p.made.Shape(x.shape[:0], requests); err != nil {
		return err
	}
	n, err := tensor.Elements(x.shape)
	if err != nil {
		return err
	}
	buf := x.pool.Get(int(n) * 4)
	x.made = append(x.made, buf)
	if err := p.made.Fill(buf.Bytes(), requests); err != nil {
		return err
	}
	x.parts = append(x.parts[:0], buf.Bytes())
	if err := x.runner.Put(i, x.shape, x.parts); err != nil {
		return status.Errorf(status.CodeOf(coded(err)), "batch input '%s': %w", p.name, err)
	}
	return nil
}
