package instance

import (
	"context"
	"slices"
	"time"

	"nereid/engine/infer"
	"nereid/engine/sched"
)

// An instance that cannot execute fails its batches at once, so it would take all requests of the queue from the
// instances that can.

// down returns nil if the instance can execute now; see backend.Intermittent.
func (r *run) down() <-chan struct{} {
	if r.intermittent == nil {
		return nil
	}
	return r.intermittent.Down()
}

// mayMove reports whether another instance may execute a batch of one that is down. One of sequences has its slots.
func (s *Set) mayMove() bool {
	_, bound := s.o.Batcher.(sched.Binder)
	return !bound
}

// leaveToOthers waits while r cannot execute and another instance can. It returns early when r is to end.
func (s *Set) leaveToOthers(pull context.Context, r *run) {
	bound, _ := s.o.Batcher.(sched.Binder)
	for pull.Err() == nil {
		changed := r.down()
		if changed == nil || !s.othersServe(r) {
			return
		}
		if bound != nil {
			bound.Suspend(r.id)
			bound = nil // once
		}
		t := time.NewTimer(othersCheck)
		select {
		case <-changed:
		case <-pull.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// othersServe reports whether an instance other than r takes batches and can execute. It is false if Resize has removed
// r, which then leaves when its sequences have ended.
func (s *Set) othersServe(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stays := slices.Contains(s.runs, r)
	return stays && slices.ContainsFunc(s.runs, func(other *run) bool {
		return other != r && !other.place.Passive && !other.ended() && other.down() == nil
	})
}

// replace returns another run with its turn, for a batch that the goroutine of r has while r cannot execute. wait says
// that it waits for one that is busy. nil: there is none.
func (s *Set) replace(r *run, wait bool) *run {
	s.stranded.Add(1)
	defer s.stranded.Add(-1)
	s.freed.L.Lock()
	defer s.freed.L.Unlock()
	for r.down() != nil {
		able := false
		for _, other := range *s.current.Load() {
			if other == r || other.ended() || other.down() != nil {
				continue
			}
			if !other.turn.TryLock() {
				able = true
				continue
			}
			if !other.turn.closed {
				return other
			}
			other.turn.Unlock()
		}
		if !able || !wait {
			return nil
		}
		s.await()
	}
	return nil
}

// await waits until a turn is released, at most for othersCheck: an instance that is back releases none. s.freed.L is
// held.
func (s *Set) await() {
	t := time.AfterFunc(othersCheck, s.wake)
	defer t.Stop()
	s.freed.Wait()
}

// wake wakes the goroutines that wait for a turn.
func (s *Set) wake() {
	s.freed.L.Lock()
	defer s.freed.L.Unlock()
	s.freed.Broadcast()
}

// nested reports whether a model's execution made a request of the batch. It may occupy the instance that would have to
// become free.
func nested(b *infer.Batch) bool {
	for _, r := range b.Requests {
		if r.Origin != nil {
			return true
		}
	}
	return false
}
