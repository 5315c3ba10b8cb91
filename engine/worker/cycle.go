package worker

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

// Models may call each other, and an execution holds its instance until its calls are answered. If all instances of
// some models execute requests whose calls wait for these models, none can continue. A call for a request that itself
// runs on the called model is refused at once (infer.Origin). Cycles of several requests, also through ensembles, are
// found here: a call that waits looks at all workers, and the first that sees itself in a cycle cycleChecks times in
// a row is cancelled.
//
// An execution waits for a call that it has made with exec on its own thread. We assume that it also waits for a call
// made on another thread, which is right if the model joins its threads. So a call for which no code waits may be
// cancelled if its execution holds an instance that the call needs for that long. For async_exec the process is
// asked.

// relay is a queue that answers a request by requests to others, as an ensemble's.
type relay interface {
	infer.Queue
	// Awaits returns the requests of which one must be answered before this one continues, with a reference on each;
	// none: it continues by itself.
	Awaits() []*infer.Request
}

// waitingRequest is what a request was waiting for at a moment: the worker that has it, other requests, or any worker
// of a model.
type waitingRequest struct {
	r       *infer.Request // only for comparison; it may be gone
	by      *Worker        // nil: no worker has it
	relayed bool           // it waits for steps, or for nothing
	steps   []waitingRequest
	model   string
	version int64
}

// snapshot is the state of a worker at a moment.
type snapshot struct {
	model     string
	version   int64 // 0: not known
	executing map[*infer.Request]struct{}
	execution *callSite                    // nil: nothing is executed
	late      map[*infer.Request]*callSite // requests whose execution is over
}

// callSite is what makes calls and waits for them: an execution, or a request whose execution is over.
type callSite struct {
	calls []waitingRequest
	stuck bool
}

// cycle returns the names of the models whose instances wait for each other so that the call r of w can never be
// answered. nil: it can.
func (l *Launcher) cycle(w *Worker, r *infer.Request) []string {
	l.mu.Lock()
	workers := slices.Collect(maps.Keys(l.workers))
	l.mu.Unlock()
	g := waitGraph{workers: map[*Worker]*snapshot{}, models: map[string][]*snapshot{}}
	for _, x := range workers {
		s := x.snapshot()
		g.workers[x] = s
		g.models[s.model] = append(g.models[s.model], s)
	}
	g.solve()
	if own := g.workers[w]; own == nil || !own.stuckOn(r) {
		return nil
	}
	names := map[string]bool{}
	for _, s := range g.workers {
		for site := range s.callSites() {
			if site.stuck {
				names[s.model] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// waitGraph is all workers at a moment.
type waitGraph struct {
	workers map[*Worker]*snapshot
	models  map[string][]*snapshot
}

// solve finds the call sites that are stuck: those that wait only for others that are stuck.
func (g *waitGraph) solve() {
	for changed := true; changed; {
		changed = false
		for _, s := range g.workers {
			for site := range s.callSites() {
				if site.stuck && slices.ContainsFunc(site.calls, g.canContinue) {
					site.stuck, changed = false, true
				}
			}
		}
	}
}

// canContinue reports whether a request may be answered, as far as is known.
func (g *waitGraph) canContinue(c waitingRequest) bool {
	switch {
	case c.relayed:
		return len(c.steps) == 0 || slices.ContainsFunc(c.steps, g.canContinue)
	case c.by != nil:
		s := g.workers[c.by]
		if s == nil {
			return true // the process has ended since
		}
		if site := s.late[c.r]; site != nil {
			return !site.stuck
		}
		_, executing := s.executing[c.r]
		return !executing || !s.execution.stuck
	}
	workers := 0 // that can execute it
	for _, s := range g.models[c.model] {
		if s.version != 0 && s.version != c.version {
			continue
		}
		if workers++; s.execution == nil || !s.execution.stuck {
			return true
		}
	}
	return workers == 0 // a model without processes calls no others
}

// callSites returns all call sites of a worker.
func (s *snapshot) callSites() iter.Seq[*callSite] {
	return func(yield func(*callSite) bool) {
		if s.execution != nil && !yield(s.execution) {
			return
		}
		for _, site := range s.late {
			if !yield(site) {
				return
			}
		}
	}
}

// stuckOn reports whether a call site of the worker is stuck on this call.
func (s *snapshot) stuckOn(r *infer.Request) bool {
	for site := range s.callSites() {
		if site.stuck && slices.ContainsFunc(site.calls, func(c waitingRequest) bool { return c.r == r }) {
			return true
		}
	}
	return false
}

// snapshot returns the state of the worker now. A call site counts as stuck, until solve, if it has unanswered calls
// that code waits for.
func (w *Worker) snapshot() *snapshot {
	w.mu.Lock()
	s := &snapshot{
		model: w.spec.ModelName, version: w.spec.Version,
		executing: map[*infer.Request]struct{}{}, late: map[*infer.Request]*callSite{},
	}
	type call struct {
		r      *infer.Request
		parent uint64
	}
	var calls []call
	for _, c := range w.bls.open {
		if !c.unawaited && !c.Request.Cancelled() && !c.Request.Answered() {
			calls = append(calls, call{c.Request.Retain(), c.Parent})
		}
	}
	answered := map[uint64]bool{} // by ticket of what is executed
	if ex := w.current; ex != nil {
		s.execution = &callSite{}
		for i := range ex.requests {
			q := &ex.requests[i]
			answered[q.ticket] = q.done
			if !q.done {
				s.executing[q.r] = struct{}{}
			}
		}
	}
	late := map[uint64]*callSite{} // by ticket
	for ticket, q := range w.late {
		late[ticket] = &callSite{}
		s.late[q.r] = late[ticket]
	}
	w.mu.Unlock()
	for _, c := range calls {
		waits := waitOf(c.r)
		over, executed := answered[c.parent]
		switch site := late[c.parent]; {
		case site != nil:
			site.calls = append(site.calls, waits)
		case executed && over: // the next of its series is executed by now
		case executed, c.parent == 0 && s.execution != nil && len(late) == 0:
			s.execution.calls = append(s.execution.calls, waits)
		default: // the parent is not known
			for _, site := range late {
				site.calls = append(site.calls, waits)
			}
		}
		c.r.Release()
	}
	for site := range s.callSites() {
		site.stuck = len(site.calls) > 0
	}
	return s
}

// waitOf returns what a request waits for. The caller has a reference on it.
func waitOf(r *infer.Request) waitingRequest {
	c := waitingRequest{r: r}
	switch q := r.Queue().(type) {
	case nil:
		c.relayed = true // it is on its way to its queue
	case *Worker:
		c.by = q
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

// cycleWatch checks a call that waits for cycles.
type cycleWatch struct {
	w     *Worker
	call  *blsCall
	timer *time.Timer
	seen  int // checks in a row that found a cycle; of the timer's goroutine

	mu      sync.Mutex
	err     error // guarded by mu: why the call was cancelled
	stopped bool  // guarded by mu
}

func (w *Worker) watchForCycle(call *blsCall) *cycleWatch {
	c := &cycleWatch{w: w, call: call}
	c.mu.Lock() // the timer is set before it fires
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(cycleCheck, c.check)
	return c
}

func (c *cycleWatch) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	r := c.call.Request
	c.w.log.Debug("a model's call is not answered yet", "model", r.ModelName, "call", c.call.id)
	models := c.w.launcher.cycle(c.w, r)
	if c.seen++; models == nil {
		c.seen = 0
	}
	if c.seen < cycleChecks {
		c.askAwaited() // the answer is there at the next check
		c.timer.Reset(cycleCheck)
		return
	}
	c.err = errCycle(models)
	r.Fail(c.err) // also if a model executes it that does not look whether it is cancelled
	r.Cancel()
}

// askAwaited asks the process whether code waits for the call by now, if none did when it was made.
func (c *cycleWatch) askAwaited() {
	if !c.call.Unawaited || !c.w.retain() {
		return
	}
	defer c.w.down.Release()
	packet := make([]byte, frames.HeaderSize)
	frames.Header{Kind: frames.KindBLSWait, ID: c.call.id}.Put(packet)
	if err := c.w.p.TrySend(packet); err != nil {
		c.w.log.Debug("a question did not reach a model's process", "err", err) // it is asked again
	}
}

// found returns why the call was cancelled, nil if it was not.
func (c *cycleWatch) found() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// stop ends the checks.
func (c *cycleWatch) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
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
			"in one "+
			"direction only", strings.Join(models, "' and '"))
}
