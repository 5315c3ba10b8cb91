package instance

import (
	"sync"
	"time"

	"nereid/engine/infer"
)

// A request that is alone need not go through the queue: Inline executes it on its own goroutine, which saves two
// goroutine switches and the wake-ups of idle threads that come with them. That is only right for models that allow it
// (backend.Traits.RunsInline and WaitsInline), while their executions are so short that none has to be stopped.

// turn is the right to call an instance's Execute or Close.
type turn struct {
	sync.Mutex
	closed bool
	mean   time.Duration   // of the latest executions, for each request; guarded by the turn
	last   infer.Execution // the latest; guarded by the turn
}

// took notes the duration of an execution. The turn is held.
func (t *turn) took(d time.Duration, requests int) {
	if requests > 1 {
		d /= time.Duration(requests)
	}
	t.mean += (d - t.mean) / 8
}

// Inline executes r at once on the caller's goroutine if an instance is free and its executions are short. It reports
// whether it did: r has its final response then. The caller makes sure that no other request waits and that the model
// may run inline.
func (s *Set) Inline(r *infer.Request) bool {
	runs := s.current.Load()
	if runs == nil {
		return false
	}
	for _, run := range *runs {
		if len(*runs) > 1 && run.down() != nil || !run.turn.TryLock() {
			continue
		}
		// If it is not known yet how long executions take, and this one is long, the scheduler could give the instance
		// the next request, which would wait beside a free instance.
		unknown := run.turn.mean == 0 && len(*runs) > 1
		if run.turn.closed || run.turn.mean > inlineMost || unknown {
			s.release(run)
			continue
		}
		b := infer.NewBatch()
		r.Retain()
		r.Times.Queued = infer.Now()
		b.Requests = append(b.Requests, r)
		b.Rows, b.Inline = r.BatchSize, true
		s.execute(run.ctx, run, b)
		s.release(run)
		return true
	}
	return false
}

// acquire returns a run with its turn, for a batch b that the goroutine of r has. That is r, unless it executes a
// request inline, which the scheduler does not see: then it is another one that is free. The inline request may have
// made the request of the batch, and would wait for itself. It is also another one if r cannot execute.
func (s *Set) acquire(r *run, b *infer.Batch) *run {
	if r.down() != nil && s.mayMove() {
		if other := s.replace(r, !nested(b)); other != nil {
			return other
		}
	}
	if r.turn.TryLock() {
		return r
	}
	s.stranded.Add(1)
	defer s.stranded.Add(-1)
	s.freed.L.Lock()
	defer s.freed.L.Unlock()
	for {
		if r.turn.TryLock() {
			return r
		}
		for _, other := range *s.current.Load() {
			if other.down() != nil && !nested(b) || !other.turn.TryLock() {
				continue
			}
			if !other.turn.closed {
				return other
			}
			other.turn.Unlock()
		}
		s.freed.Wait()
	}
}

// release returns the turn of a run.
func (s *Set) release(r *run) {
	r.turn.Unlock()
	if s.stranded.Load() > 0 {
		s.wake()
	}
}
