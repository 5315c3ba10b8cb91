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
)

// Models may call each other, and each call holds an instance until it is answered. Where all instances of some models
// execute requests whose calls wait for these models, nothing would ever move again. A call for the sake of a request that
// is known to hold the called model itself is refused at once (infer.Origin); what several requests do to each other, also
// through ensembles, is found here: a call that waits looks at all workers, and the first that sees the same circle several
// times in a row is broken off.
//
// An execution waits for a call that it has made with exec on its own thread. Of a call on another thread that is taken to be
// so, which is right of all that join their threads; a call that nobody waits for may so be broken off where its execution
// holds an instance that the call needs for longer than circleLooks looks. Of async_exec the process is asked.

const (
	// circleLook is how often a call that waits looks, circleLooks how often in a row it must see the circle: a model's other
	// threads may be at work meanwhile.
	circleLook  = time.Second
	circleLooks = 3
)

// relay is a queue that answers a request by requests to others, as an ensemble's.
type relay interface {
	infer.Queue
	// Awaits returns those that have to be answered before anything moves, one reference on each; none: something moves.
	Awaits() []*infer.Request
}

// waiting is a request that waits, as it was seen: for a worker that has it, for other requests, or for any worker of a model.
type waiting struct {
	r       *infer.Request // to compare with; it may be gone
	by      *Worker        // nil: none has it
	relayed bool           // it waits for parts, or for nothing
	parts   []waiting
	model   string
	version int64
}

// held is a worker as it was seen.
type held struct {
	model   string
	version int64 // 0: not known
	// now is what is executed, nil if nothing is; late are requests whose execution is over, by address.
	now  *holding
	late map[*infer.Request]*holding
	has  map[*infer.Request]struct{} // what is executed
}

// holding is what makes calls and waits for them.
type holding struct {
	calls []waiting
	stuck bool
}

// enroll makes a worker known, or forgotten.
func (l *Launcher) enroll(w *Worker, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !alive {
		delete(l.workers, w)
		return
	}
	if l.workers == nil {
		l.workers = map[*Worker]struct{}{}
	}
	l.workers[w] = struct{}{}
}

// circle returns the models whose instances wait for each other so that the call r of w can never be answered; none: it can.
func (l *Launcher) circle(w *Worker, r *infer.Request) []string {
	l.mu.Lock()
	workers := slices.Collect(maps.Keys(l.workers))
	l.mu.Unlock()
	v := view{all: map[*Worker]*held{}, models: map[string][]*held{}}
	for _, x := range workers {
		h := x.seen()
		v.all[x] = h
		v.models[h.model] = append(v.models[h.model], h)
	}
	v.settle()
	me := v.all[w]
	if me == nil || !me.waitsFor(r) {
		return nil
	}
	names := map[string]bool{}
	for _, h := range v.all {
		for x := range h.holdings() {
			if x.stuck {
				names[h.model] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// view is all workers at a moment.
type view struct {
	all    map[*Worker]*held
	models map[string][]*held
}

// settle finds out who is stuck: who waits, and whom nobody can help that is not stuck himself.
func (v *view) settle() {
	for changed := true; changed; {
		changed = false
		for _, h := range v.all {
			for x := range h.holdings() {
				if x.stuck && slices.ContainsFunc(x.calls, v.moves) {
					x.stuck, changed = false, true
				}
			}
		}
	}
}

// moves reports whether a request may be answered, as far as is known.
func (v *view) moves(c waiting) bool {
	switch {
	case c.relayed:
		return len(c.parts) == 0 || slices.ContainsFunc(c.parts, v.moves)
	case c.by != nil:
		h := v.all[c.by]
		if h == nil {
			return true // the worker has ended since
		}
		if x := h.late[c.r]; x != nil {
			return !x.stuck
		}
		_, executed := h.has[c.r]
		return !executed || !h.now.stuck
	}
	able := 0 // to execute it, one day
	for _, h := range v.models[c.model] {
		if h.version != 0 && h.version != c.version {
			continue
		}
		if able++; h.now == nil || !h.now.stuck {
			return true
		}
	}
	return able == 0 // it has no workers, and what has none calls nobody
}

// holdings goes through what may be stuck in a worker.
func (h *held) holdings() iter.Seq[*holding] {
	return func(yield func(*holding) bool) {
		if h.now != nil && !yield(h.now) {
			return
		}
		for _, x := range h.late {
			if !yield(x) {
				return
			}
		}
	}
}

// waitsFor reports whether a call is one of those for which something in the worker is stuck.
func (h *held) waitsFor(r *infer.Request) bool {
	for x := range h.holdings() {
		if x.stuck && slices.ContainsFunc(x.calls, func(c waiting) bool { return c.r == r }) {
			return true
		}
	}
	return false
}

// seen returns what a worker does now. What is executed may be stuck if it has calls that it waits for and that are not
// answered; so may a request whose execution is over.
func (w *Worker) seen() *held {
	w.mu.Lock()
	h := &held{model: w.spec.ModelName, version: w.spec.Version, has: map[*infer.Request]struct{}{}, late: map[*infer.Request]*holding{}}
	var calls []asked
	for _, c := range w.bls {
		if !c.loose && !c.r.Cancelled() && !c.r.Answered() {
			calls = append(calls, asked{r: c.r.Retain(), parent: c.parent})
		}
	}
	done := map[uint64]bool{} // what is executed, by ticket, and whether it is answered
	if ex := w.cur; ex != nil {
		h.now = &holding{}
		for i := range ex.lives {
			l := &ex.lives[i]
			done[l.ticket] = l.done
			if !l.done {
				h.has[l.r] = struct{}{}
			}
		}
	}
	lates := map[uint64]*holding{}
	for ticket, l := range w.late {
		lates[ticket] = &holding{}
		h.late[l.r] = lates[ticket]
	}
	w.mu.Unlock()
	for _, c := range calls {
		call := look(c.r)
		over, executed := done[c.parent]
		switch x := lates[c.parent]; {
		case x != nil:
			x.calls = append(x.calls, call)
		case executed && over: // the next of its series is executed by now
		case executed, c.parent == 0 && h.now != nil && len(lates) == 0:
			h.now.calls = append(h.now.calls, call)
		default: // whose it is was not said
			for _, x := range lates {
				x.calls = append(x.calls, call)
			}
		}
		c.r.Release()
	}
	for x := range h.holdings() {
		x.stuck = len(x.calls) > 0
	}
	return h
}

// look sees what a request waits for. The caller has a reference on it.
func look(r *infer.Request) waiting {
	c := waiting{r: r}
	switch q := r.Queue().(type) {
	case nil:
		c.relayed = true // it is on its way to its queue
	case *Worker:
		c.by = q
	case relay:
		c.relayed = true
		for _, part := range q.Awaits() {
			if !part.Answered() {
				c.parts = append(c.parts, look(part))
			}
			part.Release()
		}
	default:
		c.model, c.version = r.Served.Name(), r.Served.Version()
	}
	return c
}

// lookout looks after a call that waits.
type lookout struct {
	w     *Worker
	id    uint64
	call  *blsCall
	timer *time.Timer
	seen  int // how often in a row the circle was there; of the timer's goroutine

	mu  sync.Mutex
	err error // guarded by mu; why the call was broken off
	off bool  // guarded by mu; nobody waits any more
}

func (w *Worker) lookAfter(id uint64, call *blsCall) *lookout {
	o := &lookout{w: w, id: id, call: call}
	o.mu.Lock() // the timer is there before it fires
	defer o.mu.Unlock()
	o.timer = time.AfterFunc(circleLook, o.look)
	return o
}

func (o *lookout) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.off {
		return
	}
	r := o.call.r
	o.w.log.Debug("a model's call is not answered yet", "model", r.ModelName, "call", o.id)
	models := o.w.p.l.circle(o.w, r)
	if o.seen++; models == nil {
		o.seen = 0
	}
	if o.seen < circleLooks {
		if o.call.loose {
			o.w.askWaits(o.id) // the answer is there when this looks again
		}
		o.timer.Reset(circleLook)
		return
	}
	o.err = circleError(models)
	r.Fail(o.err) // also if it is executed, by a model that does not look whether it is cancelled
	r.Cancel()
}

func circleError(models []string) error {
	if len(models) == 1 {
		return status.Errorf(status.Unavailable, "the model '%s' waits for itself: every instance of it executes a request whose call of it cannot begin; "+
			"raise its instance_group.count or call another model", models[0])
	}
	return status.Errorf(status.Unavailable, "the models %s wait for each other: every instance of them executes a request whose call of another one cannot begin; "+
		"raise their instance_group.count, or let models call each other in one direction only", strings.Join(quoted(models), " and "))
}

// askWaits asks the worker whether somebody waits for a call.
func (w *Worker) askWaits(id uint64) {
	if !w.hold() {
		return
	}
	defer w.p.down.release()
	packet := make([]byte, headerSize)
	putHeader(packet, header{kind: kindBLSWait, id: id})
	if err := w.p.sendNow(packet); err != nil {
		w.log.Debug("a question did not reach a model's process", "err", err) // it is asked again
	}
}

// broken returns why the call was broken off, nil if it was not.
func (o *lookout) broken() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// stop ends it.
func (o *lookout) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.off = true
	o.timer.Stop()
}

func quoted(names []string) []string {
	for i, n := range names {
		names[i] = "'" + n + "'"
	}
	return names
}
