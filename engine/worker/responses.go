package worker

import (
	"cmp"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
)

// span is when the execution of a request of a series began and ended.
type span struct{ began, ended infer.Stamp }

// responses handles a RESPONSES frame.
func (w *Worker) responses(h frames.Header, body []byte) error {
	all, err := frames.ReadResponses(body)
	if err != nil {
		return err
	}
	at := span{ended: w.clock.stamp(all.Began)}
	for range all.Count {
		if err := w.nextResponse(&all, &at); err != nil {
			return err
		}
	}
	w.restartLimit(h.ID)
	if h.Flags&frames.FlagDone != 0 {
		return w.finish(h.ID, all.Failure)
	}
	return nil
}

// nextResponse handles the next response of a frame. at is the execution before, and becomes this one's.
func (w *Worker) nextResponse(all *frames.Responses, at *span) error {
	rec, err := all.Next()
	if err != nil {
		return err
	}
	at.began = at.ended
	at.ended += infer.Stamp(rec.Took)
	return w.answer(&rec, *at)
}

// pendingResponses handles the responses of a series that the process had ready, and had not sent, when it ended.
func (w *Worker) pendingResponses() error {
	w.mu.Lock()
	series := w.current != nil && w.current.series != nil
	w.mu.Unlock()
	if !series {
		return nil
	}
	body := w.p.Up.PendingResponses()
	if len(body) == 0 {
		return nil
	}
	all, err := frames.ReadResponses(body)
	if err != nil {
		return err
	}
	w.reader.dec.OpenBody(body)
	defer w.reader.dec.Close()
	at := span{ended: w.clock.stamp(all.Began)}
	for all.More() {
		if err := w.nextResponse(&all, &at); err != nil {
			return err
		}
	}
	return nil
}

// restartLimit restarts the limit of an execution: the responses are from a series that goes on, and each of its
// requests has the whole limit.
func (w *Worker) restartLimit(id uint64) {
	if w.spec.Limits.Execute == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ex := w.current; ex != nil && ex.series != nil && ex.id == id {
		ex.began = time.Now()
	}
}

// find returns the request of a ticket, and whether the execution under way has it. nil: the worker does not have it
// any more. With final, the worker does not have it after this call.
func (w *Worker) find(ticket uint64, final bool, at span) (q *pending, current bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ex := w.current; ex != nil && ticket-ex.first < uint64(len(ex.requests)) {
		i := ticket - ex.first
		if q = &ex.requests[i]; q.done {
			return nil, false
		}
		if ex.series != nil {
			began := max(at.began, ex.lastEnd)
			ex.lastEnd = max(at.ended, began)
			ex.series[i].SetSpan(began, ex.lastEnd)
		} else if !ex.marked {
			ex.marked = true
			ex.batch.MarkOutput()
		}
		current = true
	} else if q = w.late[ticket]; q == nil {
		return nil, false
	}
	if final {
		q.done = true
		w.down.FreeState(q.state)
		q.state = arena.NoState
		delete(w.late, ticket)
	}
	return q, current
}

// answer hands one response to its request. The error is a record that does not decode.
func (w *Worker) answer(rec *frames.Response, at span) error {
	if rec.Reschedule() {
		return w.reschedule(rec, at)
	}
	q, current := w.find(rec.Ticket, rec.Final(), at)
	if q == nil {
		return w.reader.dec.Discard(rec)
	}
	if !current && rec.Final() {
		defer q.r.Release()
	}
	rec.Late = !current
	var resp *infer.Response
	var bad error
	if !rec.Empty() {
		resp = q.r.NewResponse()
		// The worker does not have the request any more if this was final: nothing else answers it.
		if bad = w.reader.dec.Response(rec, q.r, resp); bad != nil {
			resp.Release()
			resp.Err = bad
		} else if resp.Err == nil {
			w.spec.Outputs.check(&w.spec, q.r, resp)
		}
	} else if rec.Report != nil && w.spec.Decoupled {
		resp = q.r.NewResponse()
		resp.Empty = true
	}
	if rec.Report != nil && resp != nil {
		report := w.clock.report(*rec.Report)
		resp.Report = &report
	}
	if w.spec.Decoupled {
		w.stream(q, resp, rec.Final())
	} else {
		w.respondOnce(q, resp, rec.Final())
	}
	return bad
}

// reschedule marks a request of the execution under way to be scheduled again, and sets the states of its sequence. The
// worker does not have it any more. The error is a record that does not decode.
func (w *Worker) reschedule(rec *frames.Response, at span) error {
	q, current := w.find(rec.Ticket, true, at)
	if q == nil {
		return w.reader.dec.Discard(rec)
	}
	if !current {
		q.r.Fail(status.Errorf(status.Internal,
			"model instance '%s' asked to reschedule a request after its execution had returned", w.spec.Name))
		q.r.Release()
		return w.reader.dec.Discard(rec)
	}
	if q.held != nil {
		q.held.Release()
		q.held = nil
	}
	step := &infer.Response{}
	defer step.Release()
	bad := w.reader.dec.Response(rec, q.r, step)
	if err := cmp.Or(bad, step.Err); err != nil {
		q.r.Fail(err)
		return bad
	}
	q.r.Reschedule()
	return nil
}

// respondOnce answers a request of a model that is not decoupled: with one response, when FINAL has come.
func (w *Worker) respondOnce(q *pending, resp *infer.Response, final bool) {
	if q.held != nil && resp != nil {
		resp.Release()
		q.held.Release()
		q.held.Err = status.Errorf(status.Internal,
			"model instance '%s' sent more than one response to a request, and the model is not decoupled; "+
				"set model_transaction_policy { decoupled: true }", w.spec.Name)
		resp = q.held
	} else if resp == nil {
		resp = q.held
	}
	q.held = resp
	if !final {
		return
	}
	q.held = nil
	if resp == nil {
		resp = q.r.NewResponse()
		resp.Err = status.Errorf(status.Internal,
			"model instance '%s' sent no response to a request, and the model is not decoupled; "+
				"set model_transaction_policy { decoupled: true }", w.spec.Name)
	}
	resp.Final = true
	_ = q.r.Respond(resp) // fails only if it was cancelled meanwhile
}

// Outputs are the outputs that the configuration of a model has. The instances of a model share one.
type Outputs struct {
	Types  map[string]tensor.DataType
	warned atomic.Bool // an output of another type was logged
}

// check drops outputs that the configuration does not have. The response becomes an error if an output is
// missing while the model returned one of an unknown name. An output of another type keeps the type that it has, as in
// Triton; the first of a model is logged.
func (o *Outputs) check(s *Spec, r *infer.Request, resp *infer.Response) {
	if o == nil {
		return
	}
	unknown := ""
	kept := resp.Outputs[:0]
	for i := range resp.Outputs {
		out := resp.Outputs[i]
		dt, ok := o.Types[out.Name]
		if !ok {
			unknown = out.Name
			out.Release()
			continue
		}
		kept = append(kept, out)
		if dt != out.DataType && o.warned.CompareAndSwap(false, true) {
			s.Log.Warn("a model returned an output with another data type than its configuration says; "+
				"clients get this type; change the model or its configuration", "model", s.ModelName,
				"version", s.Version, "output", out.Name, "type", out.DataType.ConfigName(),
				"configuration", dt.ConfigName())
		}
	}
	resp.Outputs = kept
	if unknown == "" {
		return
	}
	for name := range o.Types {
		if r.Wants(name) && resp.Output(name) == nil {
			resp.Release()
			resp.Err = status.Errorf(status.Internal,
				"model instance '%s' returned output '%s', which its configuration does not have, and no output '%s'",
				s.Name, unknown, name)
			return
		}
	}
}
