package ensemble

import (
	"context"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// run is one request of the ensemble under way.
type run struct {
	g    *Graph
	r    *infer.Request
	need []bool // the steps to run; nil: all
	// decoupled says which steps' models are.
	decoupled []bool

	mu        sync.Mutex
	active    map[*infer.Request]struct{} // guarded by mu, as is all below: the steps' requests under way
	cancelled bool
	waits     map[*step]int // for a place of these steps, each so often
	err       error         // the first failure
	queue     time.Duration // sums over the steps, as Triton counts an ensemble's phases
	input     time.Duration
	compute   time.Duration

	// only is the response of an ensemble that is not decoupled, held back until no other can come. It belongs to the
	// flow whose turn it is, and to finish after all flows.
	only *infer.Response
}

var _ infer.Queue = (*run)(nil)

// Enqueue starts an admitted request; see sched.Scheduler.
func (g *Graph) Enqueue(r *infer.Request) error {
	if !g.begin() {
		return status.New(status.Unavailable, "the model version is being unloaded")
	}
	r.Retain()
	r.Times.Queued = infer.Now()
	x := &run{g: g, r: r, need: g.needed(r), decoupled: *g.flows.Load(), active: map[*infer.Request]struct{}{}}
	r.SetQueue(x)
	if r.Cancelled() {
		x.Cancelled(r)
	}
	go x.whole()
	return nil
}

// Close admits no more and waits for what runs.
func (g *Graph) Close() {
	g.mu.Lock()
	if !g.closed && g.running == 0 {
		close(g.quiet)
	}
	g.closed = true
	g.mu.Unlock()
	<-g.quiet
}

func (g *Graph) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *Graph) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 && g.closed {
		close(g.quiet)
	}
}

// Cancelled passes a cancellation on to the steps; see infer.Queue.
func (x *run) Cancelled(*infer.Request) {
	x.mu.Lock()
	x.cancelled = true
	var all []*infer.Request
	for s := range x.active {
		all = append(all, s.Retain())
	}
	x.mu.Unlock()
	for _, s := range all {
		s.Cancel()
		s.Release()
	}
}

// whole is the life of the request.
func (x *run) whole() {
	defer x.g.end()
	defer x.r.Release()
	f := newFlow(x)
	for i := range x.r.Inputs {
		in := &x.r.Inputs[i]
		f.tensors[x.g.inputs[in.Name]] = value{Tensor: *in, present: true, parent: true}
	}
	for name, n := range x.g.inputs {
		if x.r.Input(name) == nil {
			f.tensors[n].absent = true // an optional one
		}
	}
	f.run()
	f.release()
	x.finish()
}

// finish gives the final response, unless it is out already.
func (x *run) finish() {
	switch {
	case x.r.Answered():
		if x.only != nil {
			x.only.Release()
		}
	case x.only != nil:
		x.only.Final = true
		x.respond(x.only)
	case !x.g.decoupled:
		x.fail(x.g.errorf(status.InvalidArg, "a step gave no response, and the ensemble is not decoupled"))
	default:
		resp := x.r.NewResponse()
		resp.Final = true
		x.respond(resp)
	}
}

// fail notes the first failure, answers with it and cancels what is under way.
func (x *run) fail(err error) {
	x.mu.Lock()
	first := x.err == nil
	if first {
		x.err = err
	}
	x.mu.Unlock()
	if first {
		x.r.Fail(err)
		x.Cancelled(x.r)
	}
}

func (x *run) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err != nil
}

// respond gives a response to the caller. With the final one goes the count of the ensemble's own statistics.
func (x *run) respond(resp *infer.Response) {
	if !resp.Final {
		_ = x.r.Respond(resp) // after a failure nobody wants it
		return
	}
	x.mu.Lock()
	queue, input, compute := x.queue, x.input, x.compute
	x.mu.Unlock()
	b := infer.NewBatch()
	b.Requests = append(b.Requests, x.r)
	b.Rows = x.r.BatchSize
	b.Begin()
	// The phases are sums over the steps, which may have run side by side.
	b.Started = x.r.Times.Queued + infer.Stamp(queue)
	b.Input = b.Started + infer.Stamp(input)
	b.Output = b.Input + infer.Stamp(compute)
	x.g.stats.Left(1)
	_ = x.r.Respond(resp) // it is the only final one but for a failure's
	b.Ended = infer.Now()
	x.g.stats.Executed(b)
	b.End()
}

// call runs one request of a step and hands its responses to take, in order. An error of take ends the request.
func (x *run) call(s *step, values []value, take func(resp *infer.Response) error) error {
	if s.places != nil && !x.place(s) {
		return status.New(status.Cancelled, "request was cancelled")
	}
	r := x.request(s, values)
	defer r.Release()
	if s.places != nil {
		s.places.take(r)
		defer s.places.give(r)
	}
	if !x.enter(r) {
		return status.New(status.Cancelled, "request was cancelled")
	}
	defer x.leave(r)
	if err := x.g.host.Infer(context.Background(), r); err != nil {
		return err
	}
	for {
		resp, err := r.Next(context.Background()) // a cancelled request is answered too
		if err != nil {
			return err
		}
		last := resp.Final
		if err = resp.Err; err == nil {
			err = take(resp)
		}
		resp.Release()
		if err != nil {
			r.Cancel()
			return err
		}
		if last {
			x.count(s, r)
			return nil
		}
	}
}

// place waits for a place of a step; false: the request was cancelled before there was one.
func (x *run) place(s *step) bool {
	select {
	case s.places.free <- struct{}{}:
		return true
	default:
	}
	x.waitFor(s, 1)
	defer x.waitFor(s, -1)
	select {
	case s.places.free <- struct{}{}:
		return true
	case <-x.r.Done():
		return false
	}
}

func (x *run) waitFor(s *step, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waits == nil {
		x.waits = map[*step]int{}
	}
	if x.waits[s] += n; x.waits[s] == 0 {
		delete(x.waits, s)
	}
}

// take notes who has a place, give gives it back.
func (p *places) take(r *infer.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[r] = struct{}{}
}

func (p *places) give(r *infer.Request) {
	p.mu.Lock()
	delete(p.taken, r)
	p.mu.Unlock()
	<-p.free
}

// Awaits returns the requests that the ensemble's request waits for now, one reference on each: its steps', and those
// that have the places that it waits for. None: it does not wait.
func (x *run) Awaits() (all []*infer.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r := range x.active {
		all = append(all, r.Retain())
	}
	for s := range x.waits {
		s.places.mu.Lock()
		for r := range s.places.taken {
			all = append(all, r.Retain())
		}
		s.places.mu.Unlock()
	}
	return all
}

// request makes a step's request. Its inputs are the values' bytes, which it keeps alive.
func (x *run) request(s *step, values []value) *infer.Request {
	r := infer.New()
	r.ModelName, r.Version, r.ID = s.model, s.version, x.r.ID
	r.Keep(x.r) // its strings, and inputs of the ensemble
	for _, l := range s.in {
		v := &values[l.tensor]
		if !v.present {
			continue
		}
		t := v.Tensor
		t.Name = l.port
		r.Inputs = append(r.Inputs, t)
		if t.Buf != nil && !v.parent {
			r.Own(t.Buf.Retain())
		}
	}
	for _, l := range s.out {
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: l.port})
	}
	if x.r.Trace != nil {
		r.Trace = x.r.Trace.Child()
	}
	r.Parameters = append(r.Parameters, x.r.Parameters...)
	r.Priority, r.Timeout, r.Correlation, r.Flags = x.r.Priority, x.r.Timeout, x.r.Correlation, x.r.Flags
	r.Origin = x.r.Origin
	return r
}

// enter notes a step's request as under way; false: the ensemble's is cancelled.
func (x *run) enter(r *infer.Request) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancelled {
		return false
	}
	x.active[r] = struct{}{}
	return true
}

func (x *run) leave(r *infer.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.active, r)
}

// count adds a finished step's times to the ensemble's, and to the record that the caller can read.
func (x *run) count(s *step, r *infer.Request) {
	t := r.Times
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queue += t.Taken.Sub(t.Queued)
	x.input += t.Input.Sub(t.Taken)
	x.compute += t.Output.Sub(t.Input)
	if x.err != nil {
		return // the caller may be reading the record
	}
	x.r.Steps = append(x.r.Steps, infer.StepTimes{Model: s.model, Version: r.Served.Version(), Times: t})
}

// value is a tensor inside the ensemble. Unless it is the parent's it holds a reference on its buffer.
type value struct {
	tensor.Tensor
	present bool
	absent  bool // an optional input that was not given
	parent  bool // the bytes belong to the ensemble's request
}
