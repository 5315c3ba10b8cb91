package worker

import (
	"maps"
	"slices"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

// Models may call each other, and an execution holds its instance until its calls are answered. If all instances of
// some models execute requests whose calls wait for these models, none can continue. A call whose
// own request runs on the called model is refused at once (infer.Origin). This file finds cycles of several requests,
// also through ensembles. Each call that waits examines all workers. It is cancelled when it has found itself in a
// cycle cycleChecks times in a row.
//
// An execution waits for a call that it has made with exec on its own thread. We assume that it also waits for a call
// made on another thread, which is right if the model joins its threads. If it does not, a call that no code waits for
// may be cancelled. For async_exec, the server asks the process whether code waits; see askAwaited.

// relay is a queue that answers one request by requests to other models, such as the run of an ensemble.
type relay interface {
	infer.Queue
	// Awaits returns the requests that the relay's request waits for. The answer of any of them lets it continue. The
	// caller releases them. An empty list means that it continues without an answer.
	Awaits() []*infer.Request
}

// waitingRequest is a request and what it waited for when it was examined: the worker that has it, other requests, or
// any instance of a model.
type waitingRequest struct {
	r       *infer.Request // only for comparison: there is no reference on it
	taken   bool           // a worker has it
	relayed bool           // it waits for steps, or for nothing
	steps   []waitingRequest
	model   string
	version int64
}

// callSite is what makes calls and waits for them: an execution, or a request whose execution is over.
type callSite struct {
	model string
	calls []waitingRequest
	stuck bool // none of the calls can be answered, as far as is known
}

// liveInstance is a model instance with a process. Passive ones are left out.
type liveInstance struct {
	version   int64     // 0: not known
	execution *callSite // nil: nothing is executed
}

// waitGraph is what all workers wait for at a moment.
type waitGraph struct {
	sites     []*callSite
	holders   map[*infer.Request]*callSite // what must continue so that a request is answered
	instances map[string][]liveInstance    // by model
}

// cycle returns the names of the models whose instances wait for each other so that the call r can never be answered.
// nil: it can.
func (l *Launcher) cycle(r *infer.Request) []string {
	l.mu.Lock()
	workers := slices.Collect(maps.Keys(l.workers))
	l.mu.Unlock()
	g := waitGraph{holders: map[*infer.Request]*callSite{}, instances: map[string][]liveInstance{}}
	for _, w := range workers {
		g.add(w)
	}
	g.solve()
	isCall := func(c waitingRequest) bool { return c.r == r }
	found, names := false, map[string]bool{}
	for _, site := range g.sites {
		if site.stuck {
			names[site.model] = true
			found = found || slices.ContainsFunc(site.calls, isCall)
		}
	}
	if !found {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// add adds what a worker waits for now. A call site counts as stuck, until solve, if it has unanswered calls that
// code waits for.
func (g *waitGraph) add(w *Worker) {
	w.mu.Lock()
	model, passive := w.spec.ModelName, w.spec.Passive
	instance := liveInstance{version: w.spec.Version}
	site := func() *callSite {
		s := &callSite{model: model}
		g.sites = append(g.sites, s)
		return s
	}
	var late []*callSite
	sites := map[uint64][]*callSite{} // by ticket; none: the request is answered
	if ex := w.current; ex != nil {
		instance.execution = site()
		for i := range ex.requests {
			q := &ex.requests[i]
			sites[q.ticket] = nil
			if !q.done { // otherwise the next request of a series is executed by now
				sites[q.ticket] = []*callSite{instance.execution}
				g.holders[q.r] = instance.execution
			}
		}
	}
	for ticket, q := range w.late {
		s := site()
		late, sites[ticket], g.holders[q.r] = append(late, s), []*callSite{s}, s
	}
	open := w.bls.awaited()
	w.mu.Unlock()
	if !passive {
		g.instances[model] = append(g.instances[model], instance)
	}
	for r, parent := range open {
		makers, known := sites[parent]
		switch {
		case known:
		case parent == 0 && instance.execution != nil && len(late) == 0:
			makers = []*callSite{instance.execution}
		default:
			makers = late
		}
		waits := waitOf(r)
		for _, s := range makers {
			s.calls, s.stuck = append(s.calls, waits), true
		}
		r.Release()
	}
}

// awaited returns the unanswered calls that code waits for, each with a reference and the ticket of its parent. w.mu
// is held.
func (t *blsTable) awaited() map[*infer.Request]uint64 {
	calls := map[*infer.Request]uint64{}
	for _, c := range t.open {
		if !c.unawaited && !c.Request.Cancelled() && !c.Request.Answered() {
			calls[c.Request.Retain()] = c.Parent
		}
	}
	return calls
}

// waitOf returns what a request waits for. The caller has a reference on it.
func waitOf(r *infer.Request) waitingRequest {
	c := waitingRequest{r: r}
	switch q := r.Queue().(type) {
	case nil:
		c.relayed = true // it is on its way to its queue
	case *Worker:
		c.taken = true
	case relay:
		c.relayed = true
		for _, step := range q.Awaits() {
			if !step.Answered() {
				c.steps = append(c.steps, waitOf(step))
			}
			step.Release()
		}
	default:
		c.model, c.version = r.Served.Name(), r.Served.Version()
	}
	return c
}

// solve finds the call sites that are stuck: those that wait only for others that are stuck.
func (g *waitGraph) solve() {
	for changed := true; changed; {
		changed = false
		for _, site := range g.sites {
			if site.stuck && slices.ContainsFunc(site.calls, g.canContinue) {
				site.stuck, changed = false, true
			}
		}
	}
}

// canContinue reports whether a request may be answered, as far as is known.
func (g *waitGraph) canContinue(c waitingRequest) bool {
	switch {
	case c.relayed:
		return len(c.steps) == 0 || slices.ContainsFunc(c.steps, g.canContinue)
	case c.taken:
		site := g.holders[c.r]
		return site == nil || !site.stuck
	}
	able := 0 // instances that can execute it
	for _, i := range g.instances[c.model] {
		if i.version != 0 && i.version != c.version {
			continue
		}
		if able++; i.execution == nil || !i.execution.stuck {
			return true
		}
	}
	return able == 0 // a model without processes calls no others
}

// failCycle fails a call that waits in a cycle. It is called every cycleCheck; seen is how many times in a row it has
// found a cycle. It returns the new number.
func (t *blsTable) failCycle(call *blsCall, seen int) int {
	w := t.w
	r := call.Request
	w.log.Debug("a model's call is not answered yet", "model", r.ModelName, "call", call.id)
	models := w.launcher.cycle(r)
	if seen++; models == nil {
		seen = 0
	}
	if seen < cycleChecks {
		t.askAwaited(call) // the answer is there at the next check
		return seen
	}
	r.Fail(errCycle(models)) // needed where the model that executes it ignores cancellation
	r.Cancel()
	return 0
}

// askAwaited asks the process whether code waits for the call now. It only asks if no code waited when the call was
// made.
func (t *blsTable) askAwaited(call *blsCall) {
	w := t.w
	if !call.Unawaited || !w.retain() {
		return
	}
	defer w.down.Release()
	packet := make([]byte, frames.HeaderSize)
	frames.Header{Kind: frames.KindBLSWait, ID: call.id}.Put(packet)
	if err := w.p.TrySend(packet); err != nil {
		w.log.Debug("a question did not reach a model's process", "err", err) // the next check asks again
	}
}

func errCycle(models []string) error {
	if len(models) == 1 {
		return status.Errorf(status.Unavailable,
			"the model '%s' waits for itself: every instance of it executes a request "+
				"whose call of it cannot begin; raise its instance_group.count or call another model", models[0])
	}
	return status.Errorf(status.Unavailable,
		"the models '%s' wait for each other: every instance of them executes a request "+
			"whose call of another one cannot begin; raise their instance_group.count, or let models call each other "+
			"in one direction only", strings.Join(models, "' and '"))
}
