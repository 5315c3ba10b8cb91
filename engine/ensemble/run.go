package ensemble

import (
	"context"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// run is the execution of one request of the ensemble.
type run struct {
	g     *Graph
	r     *infer.Request
	need  []bool // by step: whether it runs; nil: all run
	fits  []fit  // by step
	place *place // nil: the request belongs to no sequence
	holds []infer.Hold

	mu        sync.Mutex
	active    map[*infer.Request]struct{} // guarded by mu, as is all below: running requests of steps
	cancelled bool
	waits     map[*step]int // by step: how many of its requests wait for its limit
	err       error         // the first failure
	queue     time.Duration // sums over the steps, as Triton counts an ensemble's phases
	input     time.Duration
	compute   time.Duration
}

var _ infer.Queue = (*run)(nil)

// Enqueue starts an admitted request; see sched.Scheduler.
func (g *Graph) Enqueue(r *infer.Request) error {
	if !g.begin() {
		return status.New(status.Unavailable, "the model version is being unloaded")
	}
	r.Retain()
	r.Times.Queued = infer.Now()
	x := &run{g: g, r: r, need: g.needed(r), fits: *g.fits.Load(), active: map[*infer.Request]struct{}{}}
	x.place, x.holds = g.join(r), g.hold(r)
	r.SetQueue(x)
	if r.Cancelled() {
		x.Cancelled(r)
	}
	go x.execute()
	return nil
}

// Close refuses new requests and waits until those that were admitted have finished.
func (g *Graph) Close() {
	g.mu.Lock()
	if !g.closed && g.running == 0 {
		close(g.idle)
	}
	g.closed = true
	g.mu.Unlock()
	<-g.idle
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
		close(g.idle)
	}
}

// Cancelled cancels the running requests of the steps; see infer.Queue.
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

// execute runs the request from its inputs to its final response.
func (x *run) execute() {
	defer x.g.end()
	defer x.r.Release()
	defer unhold(x.holds)
	defer x.g.leave(x.place)
	f := newFlow(x)
	for i := range x.r.Inputs {
		in := &x.r.Inputs[i]
		f.tensors[x.g.inputs[in.Name]] = value{Tensor: *in, present: true, parent: true}
	}
	for name, n := range x.g.inputs {
		if x.r.Input(name) == nil {
			f.tensors[n].absent = true // an optional input
		}
	}
	f.run()
	f.release()
	x.finish()
}

// finish sends the empty final response of a decoupled ensemble, unless the request was answered.
func (x *run) finish() {
	if x.r.Answered() {
		return
	}
	resp := x.r.NewResponse()
	resp.Final, resp.Empty = true, true
	x.respond(resp)
}

// fail responds with the first failure and cancels the running requests of the steps.
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

// respond sends a response to the client. With the final one it counts the request in the ensemble's statistics.
func (x *run) respond(resp *infer.Response) {
	if !resp.Final {
		_ = x.r.Respond(resp) // fails if the request has failed
		return
	}
	x.mu.Lock()
	queue, input, compute := x.queue, x.input, x.compute
	x.mu.Unlock()
	b := infer.NewBatch()
	b.Requests = append(b.Requests, x.r)
	b.Rows = x.r.BatchSize
	b.Begin()
	// The phases are sums over the steps, some of which may have run concurrently.
	b.Started = x.r.Times.Queued + infer.Stamp(queue)
	b.Input = b.Started + infer.Stamp(input)
	b.Output = b.Input + infer.Stamp(compute)
	x.g.stats.Left(1)
	_ = x.r.Respond(resp) // fails if the request has failed
	b.Ended = infer.Now()
	x.g.stats.Executed(b)
	b.End()
}

// call sends one request of a step and passes its responses to take, in order. It returns the first error, which may
// be one of take.
func (x *run) call(i int, values []value, take func(resp *infer.Response) error) error {
	s := &x.g.steps[i]
	if !x.awaitTurn(i) || s.limit != nil && !x.acquire(s) {
		return status.New(status.Cancelled, "request was cancelled")
	}
	r := x.request(s, &x.fits[i], values)
	defer r.Release()
	if s.limit != nil {
		s.limit.add(r)
		defer s.limit.release(r)
	}
	if !x.enter(r) {
		return status.New(status.Cancelled, "request was cancelled")
	}
	defer x.leave(r)
	err := x.infer(s, r)
	x.passTurn(i)
	if err != nil {
		return err
	}
	for {
		resp, err := r.Next(context.Background()) // returns also if the request is cancelled
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

// acquire waits until the limit of a step allows another request. It returns false if the request is cancelled before.
func (x *run) acquire(s *step) bool {
	select {
	case s.limit.tokens <- struct{}{}:
		return true
	default:
	}
	x.addWaits(s, 1)
	defer x.addWaits(s, -1)
	select {
	case s.limit.tokens <- struct{}{}:
		return true
	case <-x.r.Done():
		return false
	}
}

func (x *run) addWaits(s *step, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waits == nil {
		x.waits = map[*step]int{}
	}
	if x.waits[s] += n; x.waits[s] == 0 {
		delete(x.waits, s)
	}
}

// add records the request for which the caller has acquired a token, and release returns that token.
func (l *limit) add(r *infer.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight[r] = struct{}{}
}

func (l *limit) release(r *infer.Request) {
	l.mu.Lock()
	delete(l.inFlight, r)
	l.mu.Unlock()
	<-l.tokens
}

// Awaits returns the requests that the ensemble's request waits for now, with a reference on each: the running requests
// of its steps, and those that hold the tokens which it waits for. See infer.Queue.
func (x *run) Awaits() (all []*infer.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r := range x.active {
		all = append(all, r.Retain())
	}
	for s := range x.waits {
		s.limit.mu.Lock()
		for r := range s.limit.inFlight {
			all = append(all, r.Retain())
		}
		s.limit.mu.Unlock()
	}
	return all
}

// request makes the request of a step. Its inputs refer to the bytes of values, and it keeps these alive.
func (x *run) request(s *step, f *fit, values []value) *infer.Request {
	r := infer.New()
	r.ModelName, r.Version, r.ID = s.model, s.version, x.r.ID
	r.Keep(x.r) // r uses its strings and inputs
	for i, l := range s.in {
		v := &values[l.tensor]
		if !v.present {
			continue
		}
		t := v.Tensor
		t.Name = l.port
		if !x.g.batching {
			t.Shape = batchDim(t.Shape, f.dims[i], f.batched)
		}
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
	if x.r.Record != nil {
		r.Record = x.r.Record.Child("ensemble")
	}
	r.Parameters = append(r.Parameters, x.r.Parameters...)
	r.Priority, r.Timeout, r.Correlation, r.Flags = x.r.Priority, x.r.Timeout, x.r.Correlation, x.r.Flags
	r.Origin, r.Holds, r.Patient = x.r.Origin, x.holds, true
	return r
}

// batchDim returns the shape with which a tensor is passed to a model. dims are those of the model's configuration. If
// the model is batched and the shape has no batch dimension, it gets one of 1. If the model is not batched, a batch
// dimension of 1 is removed.
func batchDim(shape, dims []int64, batched bool) []int64 {
	switch {
	case batched && len(shape) == len(dims):
		return append([]int64{1}, shape...)
	case !batched && len(shape) == len(dims)+1 && shape[0] == 1:
		return shape[1:]
	}
	return shape
}

// enter records a running request of a step. It returns false if the ensemble's request is cancelled.
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

// count adds the times of a finished step to those of the ensemble, and to the request's record of steps.
func (x *run) count(s *step, r *infer.Request) {
	t := r.Times
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queue += t.Taken.Sub(t.Queued)
	x.input += t.Input.Sub(t.Taken)
	x.compute += t.Output.Sub(t.Input)
	if x.err != nil {
		return // the client has its response and may read the record
	}
	x.r.Steps = append(x.r.Steps, infer.StepTimes{Model: s.model, Version: r.Served.Version(), Times: t})
}

// value is a tensor inside the ensemble. It holds a reference on its buffer unless parent is set.
type value struct {
	tensor.Tensor
	present bool
	absent  bool // an optional input that the request does not have, or an output that a step did not send
	parent  bool // the bytes belong to the ensemble's request
}
