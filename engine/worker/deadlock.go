package worker

import (
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
// holds the called model itself is refused at once (infer.Origin); what several requests do to each other is found here: a
// call that waits looks at the workers, and the first that sees the same circle several times in a row is broken off.

const (
	// circleLook is how often a call that waits looks, circleLooks how often in a row it must see the circle: a model's other
	// threads may be at work meanwhile.
	circleLook  = time.Second
	circleLooks = 3
)

// held is a worker as it was seen.
type held struct {
	model string
	has   []*infer.Request // what it executes
	calls []waiting        // unanswered
	stuck bool
}

type waiting struct {
	r     *infer.Request
	model string
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
	all, models := map[*Worker]*held{}, map[string][]*held{}
	for _, x := range workers {
		h := x.seen()
		all[x] = h
		models[h.model] = append(models[h.model], h)
	}
	free := func(call waiting) bool {
		at := models[call.model]
		for _, h := range at {
			if slices.Contains(h.has, call.r) { // it is executed there
				return !h.stuck
			}
		}
		return len(at) == 0 || slices.ContainsFunc(at, func(h *held) bool { return !h.stuck })
	}
	for changed := true; changed; { // until those are left that nobody can help
		changed = false
		for _, h := range all {
			if h.stuck && slices.ContainsFunc(h.calls, free) {
				h.stuck, changed = false, true
			}
		}
	}
	me := all[w]
	if me == nil || !me.stuck || !slices.ContainsFunc(me.calls, func(c waiting) bool { return c.r == r }) {
		return nil
	}
	names := map[string]bool{}
	for _, h := range all {
		if h.stuck {
			names[h.model] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// seen returns what a worker does now. It may be stuck if it executes and has calls that are not answered.
func (w *Worker) seen() *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &held{model: w.spec.ModelName}
	for _, r := range w.bls {
		if !r.Cancelled() && !r.Answered() {
			h.calls = append(h.calls, waiting{r, strings.Clone(r.ModelName)})
		}
	}
	if w.cur != nil {
		for i := range w.cur.lives {
			h.has = append(h.has, w.cur.lives[i].r)
		}
	}
	h.stuck = w.cur != nil && len(h.calls) > 0
	return h
}

// lookout looks after a call that waits.
type lookout struct {
	w     *Worker
	r     *infer.Request
	timer *time.Timer
	seen  int // how often in a row the circle was there; of the timer's goroutine

	mu  sync.Mutex
	err error // guarded by mu; why the call was broken off
	off bool  // guarded by mu; nobody waits any more
}

func (w *Worker) lookAfter(r *infer.Request) *lookout {
	o := &lookout{w: w, r: r}
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
	models := o.w.p.l.circle(o.w, o.r)
	if o.seen++; models == nil {
		o.seen = 0
	}
	if o.seen < circleLooks {
		o.timer.Reset(circleLook)
		return
	}
	o.err = status.Errorf(status.Unavailable, "the models %s wait for each other: every instance of them executes a request whose call of another one cannot begin; "+
		"raise their instance_group.count, or let models call each other in one direction only", strings.Join(quoted(models), " and "))
	o.r.Fail(o.err) // also if it is executed, by a model that does not look whether it is cancelled
	o.r.Cancel()
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
