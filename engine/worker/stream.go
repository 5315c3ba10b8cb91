package worker

import (
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/arena"
)

// maxBacklog is how many responses may wait for a slow client before its request is cancelled. The process has been
// asked to pause by then, so few are on their way.
const maxBacklog = 1 << 16

// backlog is the responses of a decoupled request whose client reads slowly. It lets the worker read on.
type backlog struct {
	w *Worker
	r *infer.Request

	mu    sync.Mutex
	queue []*infer.Response // guarded by mu, as is ended
	ended bool              // nothing more is added
	added chan struct{}     // capacity 1
}

// stream hands on a response of a decoupled model, or only the end of the stream.
func (w *Worker) stream(q *pending, resp *infer.Response, final bool) {
	if resp == nil {
		if !final {
			return
		}
		resp = q.r.NewResponse()
		resp.Empty = true
	}
	resp.Final = final
	if q.backlog == nil && !q.r.WouldBlock(resp) {
		_ = q.r.Respond(resp) // fails only if it is cancelled
		return
	}
	if q.backlog == nil {
		q.backlog = &backlog{w: w, r: q.r.Retain(), added: make(chan struct{}, 1)}
		w.backlogs.Go(q.backlog.run)
	}
	if !final { // otherwise the state byte is another request's by now
		w.down.SetState(q.state, arena.StatePaused, true)
	}
	q.backlog.add(resp)
}

// add queues a response.
func (b *backlog) add(resp *infer.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		resp.Release()
		return
	}
	if len(b.queue) >= maxBacklog {
		b.r.CancelUnread()
		if !resp.Final {
			resp.Release()
			return
		}
	}
	b.queue = append(b.queue, resp)
	b.ended = resp.Final
	select {
	case b.added <- struct{}{}:
	default:
	}
}

// fail ends the stream with an error, after the responses that wait.
func (b *backlog) fail(err error) {
	if err == nil {
		err = status.New(status.Internal, "the model did not end its stream of responses")
	}
	resp := b.r.NewResponse()
	resp.Err, resp.Final = err, true
	b.add(resp)
}

// run hands on the responses until the final one. It blocks on a slow client.
func (b *backlog) run() {
	defer b.r.Release()
	for range b.added {
		for {
			b.mu.Lock()
			if len(b.queue) == 0 {
				b.mu.Unlock()
				b.w.setState(b.r, arena.StatePaused, false)
				break
			}
			resp := b.queue[0]
			b.queue[0] = nil
			b.queue = b.queue[1:]
			b.mu.Unlock()
			last := resp.Final
			_ = b.r.Respond(resp) // fails only if it is cancelled
			if last {
				return
			}
		}
	}
}
