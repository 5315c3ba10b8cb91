package instance

import (
	"sync"
	"time"

	"nereid/engine/infer"
)

// A lone request need not go through the queue: Inline runs it on the goroutine that brings it, which saves two
// changes of goroutine and the wake-ups of idle threads that come with them. That is right only for executions so short
// that nobody would want to break one off, of models that say so (backend.Traits.RunsInline) and while they keep to it.

// inlineMost is how long the executions of an instance may take, on average, to be run inline.
const inlineMost = 200 * time.Microsecond

// turn is the right to call an instance's Execute or Close.
type turn struct {
	sync.Mutex
	closed bool
	mean   time.Duration // of the latest executions, by row of requests; guarded by the turn
}

// took notes how long an execution was. The turn is held.
func (t *turn) took(d time.Duration, requests int) {
	if requests > 1 {
		d /= time.Duration(requests)
	}
	t.mean += (d - t.mean) / 8
}

// Inline runs r at once on the caller's goroutine if an instance is free and brief, and reports whether it did: r has
// its final response then. The caller makes sure that nothing else waits and that the model may be run inline.
func (s *Set) Inline(r *infer.Request) bool {
	runs := s.current.Load()
	if runs == nil {
		return false
	}
	for _, run := range *runs {
		if !run.turn.TryLock() {
			continue
		}
		if run.turn.closed || run.turn.mean > inlineMost {
			run.turn.Unlock()
			continue
		}
		b := infer.NewBatch()
		r.Retain()
		r.Times.Queued = infer.Now()
		b.Requests = append(b.Requests, r)
		b.Rows, b.Inline = r.BatchSize, true
		s.execute(run.ctx, run.id, run.inst, b, &run.turn)
		run.turn.Unlock()
		return true
	}
	return false
}
