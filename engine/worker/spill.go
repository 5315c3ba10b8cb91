package worker

import (
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// spillMost is how many responses may wait for a slow reader before its request is cancelled: the worker has been asked
// to pause, and few are under way then.
const spillMost = 1 << 16

// spill holds a decoupled request's responses while its reader is behind, so that the worker's frames go on being read.
type spill struct {
	w *Worker
	r *infer.Request

	mu    sync.Mutex
	queue []*infer.Response // guarded by mu, as is ended
	ended bool              // nothing is added any more
	wake  chan struct{}     // capacity 1
}

// decoupled hands a response on, or the mere end of the stream.
func (w *Worker) decoupled(l *live, resp *infer.Response, final bool) {
	if resp == nil {
		if !final {
			return
		}
		resp = l.r.NewResponse()
	}
	resp.Final = final
	if l.spill == nil && !l.r.WouldBlock(resp) {
		_ = l.r.Respond(resp) // cancelled at worst
		return
	}
	if l.spill == nil {
		l.spill = &spill{w: w, r: l.r.Retain(), wake: make(chan struct{}, 1)}
		w.spills.Go(l.spill.run)
	}
	if !final { // else its byte is another request's
		w.arena.mark(l.state, statePaused, true)
	}
	l.spill.add(resp, l.state)
}

// add queues a response.
func (s *spill) add(resp *infer.Response, state uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		resp.Release()
		return
	}
	if len(s.queue) >= spillMost {
		s.r.Cancel()
		if !resp.Final {
			resp.Release()
			return
		}
	}
	s.queue = append(s.queue, resp)
	s.ended = resp.Final
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fail ends the stream with an error, behind what waits.
func (s *spill) fail(err error) {
	if err == nil {
		err = status.New(status.Internal, "the model did not end its stream of responses")
	}
	resp := s.r.NewResponse()
	resp.Err, resp.Final = err, true
	s.add(resp, noState)
}

// run hands the responses on, at the reader's pace, until the final one.
func (s *spill) run() {
	defer s.r.Release()
	for range s.wake {
		for {
			s.mu.Lock()
			if len(s.queue) == 0 {
				s.mu.Unlock()
				s.w.resume(s.r)
				break
			}
			resp := s.queue[0]
			s.queue[0] = nil
			s.queue = s.queue[1:]
			s.mu.Unlock()
			last := resp.Final
			_ = s.r.Respond(resp) // blocks; cancelled at worst
			if last {
				return
			}
		}
	}
}

// resume lets a paused request's stream go on.
func (w *Worker) resume(r *infer.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != nil {
		for i := range w.cur.lives {
			if l := &w.cur.lives[i]; l.r == r && !l.done {
				w.arena.mark(l.state, statePaused, false)
				return
			}
		}
	}
	for _, l := range w.late {
		if l.r == r {
			w.arena.mark(l.state, statePaused, false)
			return
		}
	}
}
