package worker

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// execution is a batch that the worker has. The memory is used again for the next.
type execution struct {
	id     uint64
	first  uint64 // ticket of the first request
	lives  []live
	batch  *infer.Batch
	series []*infer.Batch // in place of batch: one for each request, executed one after the other
	last   infer.Stamp    // when the last one of the series that was answered ended
	marked bool           // the batch's output phase has begun
	err    error          // of the execution as a whole
	done   chan struct{}
	leads  bool // who sent it reads: see turn.go
	ctx    context.Context
	began  time.Time // if there is a limit
	late   bool      // guarded by the worker's mu: it was broken off
}

var _ infer.Queue = (*Worker)(nil)

// Failure is what a worker says of an execution that failed as a whole, with its code. The worker lives on.
type Failure struct{ Err error }

// Error returns the worker's text.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the worker's error.
func (f *Failure) Unwrap() error { return f.Err }

// Execute runs a batch; see backend.Instance. When the worker ends meanwhile the error says how, with code Unavailable.
func (w *Worker) Execute(ctx context.Context, b *infer.Batch) error {
	if err := w.admit(ctx, b, nil); err != nil {
		return err
	}
	defer w.p.down.release()
	return w.run(ctx)
}

// ExecuteSeries runs batches of one request each one after the other; see backend.Series. On an error, which is Execute's,
// begun says how many of them the worker may have begun: what is behind those can be executed elsewhere.
func (w *Worker) ExecuteSeries(ctx context.Context, series []*infer.Batch) (begun int, err error) {
	if err := w.admit(ctx, nil, series); err != nil {
		return 0, err
	}
	defer w.p.down.release()
	defer w.p.up.release()
	if err = w.run(ctx); err == nil {
		return len(series), nil
	}
	if !seriesRest {
		return len(series), err
	}
	last := w.p.up.begun()
	return min(max(int(int64(last-w.exec.first))+1, 1), len(series)), err
}

// run sends what was admitted and waits for its end.
func (w *Worker) run(ctx context.Context) error {
	ex := &w.exec
	packet, err := w.encode(ex)
	if err == nil {
		if ex.batch != nil {
			ex.batch.MarkInput() // now: the answer may come before send returns
		}
		err = w.send(packet)
	}
	if err != nil {
		w.enc.drop()
		w.forget(ex)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrClosed) {
			_ = w.p.proc.Kill() // who takes no requests has ended, or is not let live
			<-w.dead
			return w.Err()
		}
		return err
	}
	if ex.leads {
		return w.lead(ex)
	}
	return w.await(ctx, ex)
}

// admit gives the requests of a batch, or of a series, their tickets. It takes a reference on the arenas that the caller
// reads, which he has until there is no execution any more: the process may end meanwhile.
func (w *Worker) admit(ctx context.Context, b *infer.Batch, series []*infer.Batch) error {
	ex := &w.exec
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	w.numbers.exec++
	ex.ctx, ex.late = ctx, false
	if w.spec.Limits.Execute > 0 {
		ex.began = time.Now()
	}
	ex.id, ex.first = w.numbers.exec, w.numbers.ticket+1
	ex.lives = ex.lives[:0]
	if b != nil {
		for _, r := range b.Requests {
			ex.lives = append(ex.lives, live{r: r})
		}
	} else {
		for _, b := range series {
			ex.lives = append(ex.lives, live{r: b.Requests[0]})
		}
		w.p.up.refs.Add(1)
	}
	for i := range ex.lives {
		w.numbers.ticket++
		ex.lives[i].ticket, ex.lives[i].state = w.numbers.ticket, w.arena.state()
	}
	ex.batch, ex.series, ex.last, ex.marked, ex.err = b, series, 0, false, nil
	w.cur = ex
	if ex.leads = !w.reading; ex.leads {
		w.reading = true
	}
	w.p.down.refs.Add(1)
	w.mu.Unlock()
	w.running.Store(ex.id)
	for i := range ex.lives {
		r := ex.lives[i].r
		r.SetQueue(w)
		if r.Cancelled() {
			w.arena.mark(ex.lives[i].state, stateCancelled, true)
		}
	}
	return nil
}

// encode writes the execution's frame.
func (w *Worker) encode(ex *execution) ([]byte, error) {
	e := &w.enc
	e.begin()
	e.u32(uint32(len(ex.lives)))
	e.u32(0)
	for i := range ex.lives {
		l := &ex.lives[i]
		if err := e.request(l.r, l.ticket, l.state); err != nil {
			return nil, err
		}
	}
	flags := uint16(0)
	if ex.series != nil {
		flags = flagEach
	}
	return e.finish(kindExecute, flags, ex.id)
}

// forget takes back an execution that was not sent.
func (w *Worker) forget(ex *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != ex {
		return // settled meanwhile
	}
	w.cur = nil
	if ex.leads {
		w.reading = false
	}
	w.running.Store(0)
	for i := range ex.lives {
		w.arena.dropState(ex.lives[i].state)
	}
}

// await waits for the end of an execution.
func (w *Worker) await(ctx context.Context, ex *execution) error {
	var late <-chan time.Time
	if d := w.spec.Limits.Execute; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case <-ex.done:
			return ex.err
		case <-w.dead:
			return w.ending(ex)
		case <-late:
			if left := w.leftOf(ex); left > 0 {
				late = time.After(left)
				continue
			}
			_ = w.p.proc.Kill() // it may have ended
			<-w.dead
			return w.errTooLong()
		case <-ctx.Done():
			_ = w.p.proc.Kill()
			<-w.dead
			return w.ending(ex)
		}
	}
}

// advanced begins the limit of an execution anew, where responses are from a series that goes on: what follows them has
// all of it.
func (w *Worker) advanced(id uint64) {
	if w.spec.Limits.Execute == 0 || !seriesLimit {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ex := w.cur; ex != nil && ex.series != nil && ex.id == id {
		ex.began = time.Now()
	}
}

// leftOf returns how much of its limit an execution has left.
func (w *Worker) leftOf(ex *execution) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spec.Limits.Execute - time.Since(ex.began)
}

// ending returns what an execution came to whose worker has ended: it may have been over just before.
func (w *Worker) ending(ex *execution) error {
	select {
	case <-ex.done:
		return ex.err
	default:
		return w.lastWords(ex)
	}
}

func (w *Worker) errTooLong() error {
	return status.Errorf(status.Unavailable, "model instance '%s' took longer than %v to execute a batch; its process was ended", w.spec.Name, w.spec.Limits.Execute)
}

// Cancelled tells the worker that nobody waits for r; see infer.Queue.
func (w *Worker) Cancelled(r *infer.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != nil {
		for i := range w.cur.lives {
			if l := &w.cur.lives[i]; l.r == r && !l.done {
				w.arena.mark(l.state, stateCancelled, true)
				return
			}
		}
	}
	for _, l := range w.late {
		if l.r == r {
			w.arena.mark(l.state, stateCancelled, true)
			return
		}
	}
}

// responses handles a RESPONSES frame.
func (w *Worker) responses(h header, body []byte) error {
	c := cursor{b: body}
	n, moment, failure, bad := responsesHead(&c)
	if bad {
		return errFrame
	}
	began := w.moments.stamp(moment) // of what the first response is from
	for range n {
		var err error
		if began, err = w.next(&c, began); err != nil {
			return err
		}
	}
	w.advanced(h.id)
	if h.flags&flagDone != 0 {
		return w.finished(h.id, failure)
	}
	return nil
}

// next hands the next response of a frame on, from an execution that began at began in a series. It returns when that ended.
func (w *Worker) next(c *cursor, began infer.Stamp) (ended infer.Stamp, err error) {
	rec, ok := readResponse(c)
	if !ok {
		return began, errFrame
	}
	ended = began + infer.Stamp(rec.took)
	return ended, w.answer(&rec, began, ended)
}

// unsent hands those answers of a series on that were there when the process ended, and not sent.
func (w *Worker) unsent() error {
	w.mu.Lock()
	series := w.cur != nil && w.cur.series != nil
	w.mu.Unlock()
	if !series || !seriesUnsent {
		return nil
	}
	body := w.p.up.held()
	c := cursor{b: body}
	_, moment, _, _ := responsesHead(&c)
	w.in.next(body)
	defer w.in.end()
	for began := w.moments.stamp(moment); c.at < len(c.b); {
		var err error
		if began, err = w.next(&c, began); err != nil {
			return err
		}
	}
	return nil
}

// find returns the request of a ticket, nil if the worker does not have it any more. With final, it has it no more after.
// began and ended are the moments of its execution, in a series.
func (w *Worker) find(ticket uint64, final bool, began, ended infer.Stamp) (l *live, current bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ex := w.cur; ex != nil && ticket-ex.first < uint64(len(ex.lives)) {
		i := ticket - ex.first
		if l = &ex.lives[i]; l.done {
			return nil, false
		}
		if ex.series != nil {
			began = max(began, ex.last)
			ex.last = max(ended, began)
			ex.series[i].SetSpan(began, ex.last)
		} else if !ex.marked {
			ex.marked = true
			ex.batch.MarkOutput()
		}
		current = true
	} else if l = w.late[ticket]; l == nil {
		return nil, false
	}
	if final {
		l.done = true
		w.arena.dropState(l.state)
		l.state = noState
		delete(w.late, ticket)
	}
	return l, current
}

// answer hands one response on. An error is a frame that cannot be.
// began and ended are find's.
func (w *Worker) answer(rec *responseRecord, began, ended infer.Stamp) error {
	if rec.flags&responseReschedule != 0 {
		w.reschedule(rec, began, ended)
		return w.discard(rec)
	}
	final := rec.flags&responseFinal != 0
	l, current := w.find(rec.ticket, final, began, ended)
	if l == nil {
		return w.discard(rec)
	}
	if !current && final {
		defer l.r.Release()
	}
	var resp *infer.Response
	var bad error
	if rec.flags&responseEmpty == 0 {
		resp = l.r.NewResponse()
		if bad = w.fill(rec, l.r, resp); bad != nil {
			resp.Err = bad // the request is the worker's no more if this was final: nobody else answers it
		}
	}
	if w.spec.Decoupled {
		w.decoupled(l, resp, final)
	} else {
		w.single(l, resp, final)
	}
	return bad
}

// reschedule marks a request of the present execution to be executed again: the worker has it no more until then.
func (w *Worker) reschedule(rec *responseRecord, began, ended infer.Stamp) {
	l, current := w.find(rec.ticket, true, began, ended)
	switch {
	case l == nil:
	case current:
		if l.held != nil {
			l.held.Release()
			l.held = nil
		}
		l.r.Reschedule()
	default:
		l.r.Fail(status.Errorf(status.Internal, "model instance '%s' asked to reschedule a request after its execution had returned", w.spec.Name))
		l.r.Release()
	}
}

// fill turns a record into a response. What is wrong with a tensor is the response's error.
func (w *Worker) fill(rec *responseRecord, r *infer.Request, resp *infer.Response) error {
	if rec.flags&responseError != 0 {
		resp.Err = status.New(rec.code, string(rec.text))
		return nil
	}
	var err error
	if len(rec.params) > 0 {
		if resp.Parameters, err = parseParameters(rec.params, resp.Parameters); err != nil {
			return err
		}
	}
	err = w.in.outputs(rec, resp, r)
	if err == nil {
		err = w.spec.checkOutputs(r, resp)
	}
	if err != nil {
		resp.Release()
		resp.Err = err
	}
	return nil
}

// discard frees what a response has that nobody waits for.
func (w *Worker) discard(rec *responseRecord) error {
	for range rec.outputs {
		_, at, err := tensorRecord(&rec.rest, w.in.sigs)
		if err != nil {
			return err
		}
		w.in.skip(at)
	}
	return nil
}

// single answers a request of a model that is not decoupled: with one response, when FINAL has come.
func (w *Worker) single(l *live, resp *infer.Response, final bool) {
	if l.held != nil && resp != nil {
		resp.Release()
		l.held.Release()
		l.held.Err = status.Errorf(status.Internal, "model instance '%s' sent more than one response to a request, and the model is not decoupled; set model_transaction_policy { decoupled: true }", w.spec.Name)
		resp = l.held
	} else if resp == nil {
		resp = l.held
	}
	l.held = resp
	if !final {
		return
	}
	l.held = nil
	if resp == nil {
		resp = l.r.NewResponse()
		resp.Err = status.Errorf(status.Internal, "model instance '%s' sent no response to a request, and the model is not decoupled; set model_transaction_policy { decoupled: true }", w.spec.Name)
	}
	resp.Final = true
	_ = l.r.Respond(resp) // it was cancelled in the meantime at worst
}

// finished ends the execution under way.
func (w *Worker) finished(id uint64, failure error) error {
	w.mu.Lock()
	ex := w.cur
	if ex == nil || ex.id != id {
		w.mu.Unlock()
		return status.Errorf(status.Internal, "it says that execution %d is over, which is not under way", id)
	}
	if !ex.marked && ex.batch != nil {
		ex.batch.MarkOutput()
	}
	w.cur = nil
	for i := range ex.lives {
		l := &ex.lives[i]
		if l.done {
			continue
		}
		if w.spec.Decoupled && failure == nil {
			moved := *l
			moved.r.Retain()
			w.late[l.ticket] = &moved
			continue
		}
		w.drop(l)
		if l.spill != nil { // what waits goes first
			l.spill.fail(failure)
		}
	}
	ex.batch, ex.series = nil, nil
	w.mu.Unlock()
	w.finishes++
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

// checkOutputs is what Spec.Outputs stand for: it drops outputs that the configuration does not know, and errs where one
// has another type or goes by another name.
func (s *Spec) checkOutputs(r *infer.Request, resp *infer.Response) error {
	if s.Outputs == nil {
		return nil
	}
	unknown := ""
	kept := resp.Outputs[:0]
	for i := range resp.Outputs {
		o := resp.Outputs[i]
		dt, ok := s.Outputs[o.Name]
		if !ok {
			unknown = o.Name
			o.Release()
			continue
		}
		kept = append(kept, o)
		if dt != o.DataType {
			rest := resp.Outputs[i+1:]
			for j := range rest {
				rest[j].Release()
			}
			resp.Outputs = kept
			return status.Errorf(status.Internal, "model instance '%s' returned output '%s' with data type %s, and its configuration says %s",
				s.Name, o.Name, o.DataType.ConfigName(), dt.ConfigName())
		}
	}
	resp.Outputs = kept
	if unknown == "" {
		return nil
	}
	for name := range s.Outputs {
		if r.Wants(name) && resp.Output(name) == nil {
			return status.Errorf(status.Internal, "model instance '%s' returned output '%s', which its configuration does not have, and no output '%s'",
				s.Name, unknown, name)
		}
	}
	return nil
}
