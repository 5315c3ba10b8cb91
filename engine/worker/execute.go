package worker

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
)

// execution is what the process executes: a batch, or a series of requests one after the other. Its memory is reused
// for the next one.
type execution struct {
	id       uint64
	first    uint64 // ticket of the first request
	requests []pending
	batch    *infer.Batch
	series   []*infer.Batch // in place of batch: one for each request
	lastEnd  infer.Stamp    // when the last answered execution of the series ended
	marked   bool           // the batch's output phase has begun
	err      error          // of the execution as a whole
	done     chan struct{}  // capacity 1
	reads    bool           // the goroutine in Execute reads frames; see reader
	inline   bool           // the goroutine that brought the request is in Execute
	ctx      context.Context
	began    time.Time // if there is a limit
	tooLong  bool      // guarded by the worker's mu: it was ended because of its limit
}

var _ infer.Queue = (*Worker)(nil)

// Failure is the error of an execution that failed as a whole, with the code of the model's process. The process still
// runs.
type Failure struct{ Err error }

// Error returns the process's text.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the process's error.
func (f *Failure) Unwrap() error { return f.Err }

// Execute runs a batch; see backend.Instance. If the process ends meanwhile, the error says how, with code Unavailable.
func (w *Worker) Execute(ctx context.Context, b *infer.Batch) error {
	if err := w.admit(ctx, b, nil); err != nil {
		return err
	}
	defer w.down.Release()
	return w.execute(ctx)
}

// ExecuteSeries runs batches of one request each, one after the other; see backend.Series. On an error, which is
// Execute's, begun is how many of them the process may have begun. The others can be executed elsewhere.
func (w *Worker) ExecuteSeries(ctx context.Context, series []*infer.Batch) (begun int, err error) {
	if err := w.admit(ctx, nil, series); err != nil {
		return 0, err
	}
	defer w.down.Release()
	defer w.p.Up.Release()
	if err = w.execute(ctx); err == nil {
		return len(series), nil
	}
	last := w.p.Up.LastBegun()
	return min(max(int(int64(last-w.exec.first))+1, 1), len(series)), err
}

// execute sends what was admitted and waits for its end.
func (w *Worker) execute(ctx context.Context) error {
	ex := &w.exec
	packet, err := w.encode(ex)
	if err == nil {
		if ex.batch != nil {
			ex.batch.MarkInput() // now: the response may come before send returns
		}
		err = w.send(packet)
	}
	if err != nil {
		w.enc.Drop()
		w.withdraw(ex)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrClosed) {
			w.p.Kill() // a process that takes no requests has ended, or is of no use
			<-w.dead
			return w.Err()
		}
		return err
	}
	if ex.reads {
		return w.reader.readExecution(ex)
	}
	return w.await(ctx, ex)
}

// admit gives the requests of a batch, or of a series, their tickets. It retains the arenas for the caller, because the
// process may end before the execution is over.
func (w *Worker) admit(ctx context.Context, b *infer.Batch, series []*infer.Batch) error {
	ex := &w.exec
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	w.lastExec++
	ex.ctx, ex.tooLong = ctx, false
	if w.spec.Limits.Execute > 0 {
		ex.began = time.Now()
	}
	ex.id, ex.first = w.lastExec, w.lastTicket+1
	ex.requests = ex.requests[:0]
	if b != nil {
		for _, r := range b.Requests {
			ex.requests = append(ex.requests, pending{r: r})
		}
	} else {
		for _, b := range series {
			ex.requests = append(ex.requests, pending{r: b.Requests[0]})
		}
		w.p.Up.Retain()
	}
	for i := range ex.requests {
		w.lastTicket++
		ex.requests[i].ticket, ex.requests[i].state = w.lastTicket, w.down.NewState()
	}
	ex.batch, ex.series, ex.lastEnd, ex.marked, ex.err = b, series, 0, false, nil
	ex.inline = b != nil && b.Inline
	w.current = ex
	if ex.reads = !w.reader.active; ex.reads {
		w.reader.active = true
	}
	w.down.Retain()
	w.mu.Unlock()
	w.running.Store(ex.id)
	for i := range ex.requests {
		r := ex.requests[i].r
		r.SetQueue(w)
		if r.Cancelled() {
			w.Cancelled(r)
		}
	}
	return nil
}

// encode writes the execution's frame.
func (w *Worker) encode(ex *execution) ([]byte, error) {
	e := &w.enc
	e.Begin()
	e.Requests(len(ex.requests))
	for i := range ex.requests {
		q := &ex.requests[i]
		if err := e.Request(q.r, q.ticket, q.state); err != nil {
			return nil, err
		}
	}
	flags := uint16(frames.LevelsOf(w.log)) << frames.LevelShift
	if ex.series != nil {
		flags |= frames.FlagSeries
	}
	return e.Finish(frames.KindExecute, flags, ex.id)
}

// withdraw takes back an execution that was not sent.
func (w *Worker) withdraw(ex *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != ex {
		return // the process has ended
	}
	w.current = nil
	if ex.reads {
		w.reader.active = false
	}
	w.running.Store(0)
	for i := range ex.requests {
		w.down.FreeState(ex.requests[i].state)
	}
}

// await waits for the end of an execution while the read loop reads.
func (w *Worker) await(ctx context.Context, ex *execution) error {
	var limit <-chan time.Time
	if d := w.spec.Limits.Execute; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		limit = t.C
	}
	var look <-chan time.Time // for clients that have left
	if ex.inline {
		t := time.NewTicker(idleRead)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case <-ex.done:
			return ex.err
		case <-look:
			w.reader.cancelAbandoned()
		case <-w.dead:
			return w.outcome(ex)
		case <-limit:
			w.mu.Lock()
			left := w.spec.Limits.Execute - time.Since(ex.began)
			w.mu.Unlock()
			if left > 0 { // a series has moved on
				limit = time.After(left)
				continue
			}
			w.Kill()
			return w.errTooLong()
		case <-ctx.Done():
			w.Kill()
			return w.outcome(ex)
		}
	}
}

// outcome returns the error of an execution whose process has ended. The execution may have been over just before.
func (w *Worker) outcome(ex *execution) error {
	select {
	case <-ex.done:
		return ex.err
	default:
	}
	if ex.tooLong {
		return w.errTooLong()
	}
	return w.Err()
}

func (w *Worker) errTooLong() error {
	return status.Errorf(status.Unavailable,
		"model instance '%s' took longer than %v to execute a batch; its process was ended",
		w.spec.Name, w.spec.Limits.Execute)
}

// Cancelled notifies the process that no client waits for r; see infer.Queue.
func (w *Worker) Cancelled(r *infer.Request) {
	w.setState(r, arena.StateCancelled, true)
	w.watch.cancelled()
}

// setState sets or clears bits of the state byte of a request, if the worker still has it.
func (w *Worker) setState(r *infer.Request, bits byte, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		for i := range w.current.requests {
			if q := &w.current.requests[i]; q.r == r && !q.done {
				w.down.SetState(q.state, bits, on)
				return
			}
		}
	}
	for _, q := range w.late {
		if q.r == r {
			w.down.SetState(q.state, bits, on)
			return
		}
	}
}

// finish ends the execution under way. Requests of a decoupled model without a final response stay pending. A request
// of another model that has its response is answered with it: its final flag may come later, and is then discarded.
func (w *Worker) finish(id uint64, failure error) error {
	w.mu.Lock()
	ex := w.current
	if ex == nil || ex.id != id {
		w.mu.Unlock()
		return status.Errorf(status.Internal, "it says that execution %d is over, which is not under way", id)
	}
	if !ex.marked && ex.batch != nil {
		ex.batch.MarkOutput()
	}
	w.current = nil
	var sent []pending
	for i := range ex.requests {
		q := &ex.requests[i]
		if q.done {
			continue
		}
		if q.held != nil && failure == nil {
			sent = append(sent, *q)
			q.held = nil
		}
		if w.spec.Decoupled && failure == nil {
			moved := *q
			moved.r.Retain()
			w.late[q.ticket] = &moved
			continue
		}
		w.releasePending(q)
		if q.backlog != nil { // the error comes after the responses that wait
			q.backlog.fail(failure)
		}
	}
	ex.batch, ex.series = nil, nil
	w.mu.Unlock()
	for i := range sent {
		w.respondOnce(&sent[i], nil, true)
	}
	w.reader.finished++
	w.running.Store(0)
	if !w.served.Load() {
		w.served.Store(true)
	}
	if failure != nil {
		failure = &Failure{failure}
	}
	ex.err = failure
	ex.done <- struct{}{}
	return nil
}
