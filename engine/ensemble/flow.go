package ensemble

import (
	"math"
	"slices"
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// maxFlows limits how many responses of a decoupled step are processed at once. At the limit the step's model waits,
// unless a later step may need its instance.
const maxFlows = 32

// flow runs the graph once: all of it, or the steps that follow one response of a decoupled step. Only the goroutine
// that runs the flow uses its fields.
type flow struct {
	x       *run
	tensors []value
	started []bool
	// turn is closed when the previous flow has responded, and done is closed when this one has. Both are nil for the
	// first flow.
	turn, done chan struct{}
}

func newFlow(x *run) *flow {
	f := &flow{x: x, tensors: make([]value, len(x.g.tensors)), started: make([]bool, len(x.g.steps))}
	for i := range f.started {
		f.started[i] = x.need != nil && !x.need[i]
	}
	return f
}

// release drops the flow's references to its tensors.
func (f *flow) release() {
	for i := range f.tensors {
		if v := &f.tensors[i]; v.present && !v.parent {
			v.Release()
		}
	}
}

// ready reports whether all inputs of a step are present.
func (f *flow) ready(s *step) bool {
	for _, l := range s.in {
		if v := &f.tensors[l.tensor]; !v.present && !v.absent {
			return false
		}
	}
	return true
}

// result is the outcome of a step.
type result struct {
	step   int
	values []value // the outputs, in the order of step.out
	err    error
}

// run executes the steps as their inputs become present, and then responds. It executes a decoupled step only when all
// steps that do not depend on it have finished; the steps that follow run in a new flow for each response.
func (f *flow) run() {
	results := make(chan result, len(f.x.g.steps))
	running := 0
	for {
		decoupled := -1
		var next []int
		for i := range f.x.g.steps {
			s := &f.x.g.steps[i]
			if f.started[i] || !f.ready(s) {
				continue
			}
			if f.x.fits[i].decoupled {
				decoupled = i
				continue
			}
			f.started[i] = true
			next = append(next, i)
		}
		if f.x.failed() {
			next, decoupled = nil, -1
		}
		inline := -1
		if len(next) == 1 && running == 0 { // nothing can become ready before it has finished
			inline, next = next[0], nil
		}
		for _, i := range next {
			running++
			values := slices.Clone(f.tensors) // the flow changes f.tensors while the step runs
			go func() { results <- f.x.step(i, values) }()
		}
		switch {
		case inline >= 0:
			f.take(f.x.step(inline, f.tensors))
		case running > 0:
			f.take(<-results)
			running--
		case decoupled >= 0:
			f.started[decoupled] = true
			f.fork(decoupled)
			return
		default:
			f.respond()
			return
		}
	}
}

// take adds the outputs of a step to the flow.
func (f *flow) take(res result) {
	if res.err != nil {
		f.x.fail(f.x.g.errorf(status.CodeOf(res.err), "%w", res.err))
		return
	}
	f.set(&f.x.g.steps[res.step], res.values)
}

// set records the outputs of a step. The steps that follow do not wait for an output that the model did not send.
func (f *flow) set(s *step, values []value) {
	for i, l := range s.out {
		f.tensors[l.tensor] = values[i]
		f.tensors[l.tensor].absent = !values[i].present
	}
}

// step executes a step whose model sends one response.
func (x *run) step(i int, values []value) result {
	s := &x.g.steps[i]
	res := result{step: i}
	res.err = x.call(i, values, func(resp *infer.Response) error {
		if res.values != nil {
			return status.Errorf(status.InvalidArg, "model '%s' became decoupled; load the ensemble again", s.model)
		}
		res.values = outputs(s, resp)
		return nil
	})
	if res.err != nil {
		for i := range res.values {
			res.values[i].Release()
		}
	}
	return res
}

// outputs returns the tensors of a response, with a reference to each. Outputs that the model did not send are not
// present.
func outputs(s *step, resp *infer.Response) []value {
	values := make([]value, len(s.out))
	for i, l := range s.out {
		out := resp.Output(l.port)
		if out == nil {
			continue
		}
		values[i] = value{Tensor: *out, present: true}
		values[i].Shape = slices.Clone(out.Shape)
		values[i].Retain() // the response releases its own reference
	}
	return values
}

// fork executes a decoupled step when the previous flow has responded: else it could keep the instance, or the token,
// that the previous flow needs. Each of its responses starts a flow. The flows respond in the order of the responses,
// and before the client gets an error of the step.
func (f *flow) fork(i int) {
	f.wait()
	x, s := f.x, &f.x.g.steps[i]
	var children sync.WaitGroup
	most := maxFlows
	if x.fits[i].recurs {
		most = math.MaxInt32
	}
	tokens := make(chan struct{}, most)
	var turn chan struct{} // closed when the last child has responded; nil: there is none
	err := x.call(i, f.tensors, func(resp *infer.Response) error {
		if resp.Empty {
			return nil
		}
		child := f.child(s, resp)
		child.turn, child.done = turn, make(chan struct{})
		turn = child.done
		tokens <- struct{}{}
		children.Add(1)
		go func() {
			defer children.Done()
			child.run()
			child.pass()
			child.release()
			<-tokens
		}()
		if x.failed() {
			return status.New(status.Cancelled, "request was cancelled")
		}
		return nil
	})
	if err != nil {
		if turn != nil { // the responses before the error
			select {
			case <-turn:
			case <-x.r.Done():
			}
		}
		x.fail(x.g.errorf(status.CodeOf(err), "%w", err))
	}
	children.Wait()
}

// child returns the flow for a response of a decoupled step.
func (f *flow) child(s *step, resp *infer.Response) *flow {
	c := &flow{x: f.x, tensors: slices.Clone(f.tensors), started: slices.Clone(f.started)}
	for i := range c.tensors {
		if v := &c.tensors[i]; v.present && !v.parent {
			v.Retain()
		}
	}
	c.set(s, outputs(s, resp))
	return c
}

// wait returns when the previous flows have responded.
func (f *flow) wait() {
	if f.turn != nil {
		<-f.turn
		f.turn = nil
	}
}

// pass allows the next flow to respond.
func (f *flow) pass() {
	f.wait()
	if f.done != nil {
		close(f.done)
		f.done = nil
	}
}

// respond sends the requested outputs to the client, without those that the steps did not produce.
func (f *flow) respond() {
	x := f.x
	f.wait()
	if x.failed() {
		return
	}
	resp := x.r.NewResponse()
	for i, n := range x.g.outputs {
		name := x.g.tensors[n]
		if !x.r.Wants(name) {
			continue
		}
		v := &f.tensors[n]
		if !v.present {
			continue
		}
		v.Retain()
		shape := v.Shape
		if !x.g.batching {
			shape = batchDim(shape, graphDims(x.g.cfg.GetOutput()[i]), false)
		}
		resp.AddOutput(name, v.DataType, shape, v.Data, v.Buf)
	}
	resp.Parameters = append(resp.Parameters, sequenceParameters(x.r)...)
	resp.Final = f.done == nil // else the decoupled step may send more responses
	x.respond(resp)
}

// sequenceParameters returns the parameters that Triton adds to every response of an ensemble.
func sequenceParameters(r *infer.Request) []infer.Parameter {
	id := infer.Parameter{Name: "sequence_id", Kind: infer.IntParameter, Int: int64(r.Correlation.Number)}
	if r.Correlation.Text != "" {
		id = infer.Parameter{Name: "sequence_id", Kind: infer.StringParameter, Text: r.Correlation.Text}
	}
	return []infer.Parameter{
		id,
		{Name: "sequence_start", Kind: infer.BoolParameter, Bool: r.Flags&infer.SequenceStart != 0},
		{Name: "sequence_end", Kind: infer.BoolParameter, Bool: r.Flags&infer.SequenceEnd != 0},
	}
}
