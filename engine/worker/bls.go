package worker

import (
	"fmt"
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
)

const (
	// mostNested is how deep models may call models.
	mostNested = 32
	// mostCalls is how many calls of other models a worker may have unanswered, mostQuestions how many others.
	mostCalls     = 1 << 16
	mostQuestions = 1 << 10
)

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// beginBLS decodes a request for another model and hands it to the server. An answer that is there at once, as one of a model
// that runs on the goroutine of who asks, is sent at once; else a goroutine waits for it.
func (w *Worker) beginBLS(id uint64, body []byte) error {
	call, err := w.in.bls(body)
	if err != nil {
		return err
	}
	r := call.r
	r.Origin = w.origin(&call)
	w.mu.Lock()
	if w.bls[id] != nil || len(w.bls) >= mostCalls {
		w.mu.Unlock()
		r.Release()
		return status.Errorf(status.Internal, "it makes call %d again, or more than %d calls at once", id, mostCalls)
	}
	w.bls[id] = &asked{r: r.Retain(), parent: call.parent, loose: call.loose}
	w.mu.Unlock()
	err = w.inferBLS(r) // does not block
	if err == nil && !call.stream && !r.Served.Decoupled() {
		call.first = r.Poll()
		if resp := call.first; resp != nil && resp.Final && w.sendBLS(id, resp, true) == nil {
			resp.Release()
			w.endBLS(id)
			r.Release()
			return nil
		}
	}
	w.tasks.Go(func() { w.serveBLS(id, &call, err) })
	return nil
}

// asked is a call that is not answered.
type asked struct {
	r      *infer.Request // with a reference
	parent uint64         // ticket of the request for whose sake it is made; 0: not known
	loose  bool           // nobody waits for it, as far as is known
}

// origin says for whose sake a call is made: for its parent's, or for that of what is executed now. It is one for all calls of
// a request that what is executed waits for, and one for all others.
func (w *Worker) origin(call *blsCall) *infer.Origin {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parent *live
	exec := uint64(0)
	if ex := w.cur; ex != nil && len(ex.lives) > 0 {
		if i := call.parent - ex.first; call.parent == 0 && call.holds || i < uint64(len(ex.lives)) {
			exec = ex.id
			if call.parent == 0 {
				i = 0
			}
			parent = &ex.lives[i]
		}
	}
	if parent == nil {
		parent = w.late[call.parent]
	}
	if parent != nil && call.traced && parent.r.Trace != nil && !parent.r.Answered() {
		call.r.Trace = parent.r.Trace.Child()
	}
	known := new(*infer.Origin)
	if parent != nil {
		known = &parent.loose
		if call.holds {
			known = &parent.origin
		}
	}
	if *known != nil {
		return *known
	}
	o := &infer.Origin{Model: w.spec.ModelName, Async: !call.holds, Busy: func() bool { return exec != 0 && w.running.Load() == exec }}
	if parent != nil {
		o.Parent = parent.r.Origin
	}
	*known = o
	return o
}

func (w *Worker) cancelBLS(id uint64) {
	w.mu.Lock()
	var r *infer.Request
	if c := w.bls[id]; c != nil {
		r = c.r.Retain()
	}
	w.mu.Unlock()
	if r != nil {
		r.Cancel()
		r.Release()
	}
}

// waitsBLS notes whether somebody waits for a call that was made without.
func (w *Worker) waitsBLS(id uint64, body []byte) error {
	if len(body) != 1 {
		return errFrame
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.bls[id]; c != nil {
		c.loose = body[0] == 0
	}
	return nil
}

// serveBLS sends the responses of a call that the server has taken, or has not: err.
func (w *Worker) serveBLS(id uint64, call *blsCall, err error) {
	r := call.r
	defer r.Release()
	defer w.endBLS(id)
	if err == nil && !call.stream && r.Served.Decoupled() {
		r.Cancel()
		err = refused(r, "Model %s is using the decoupled. The current BLS request call doesn't support models using the decoupled transaction policy. "+
			"Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'", r.ModelName)
	}
	watch := w.lookAfter(id, call)
	defer watch.stop()
	for err == nil {
		resp := call.first
		if call.first = nil; resp == nil {
			if resp, err = r.Next(w.context()); err != nil { // when settle has cancelled r
				break
			}
			if circle := watch.broken(); circle != nil && resp.Err != nil {
				resp.Release()
				err = circle
				break
			}
		}
		last := resp.Final
		serr := w.sendBLS(id, resp, false)
		resp.Release()
		if serr != nil {
			r.Cancel()
			if status.CodeOf(serr) == status.InvalidArg { // it cannot be written
				err = serr
				break
			}
			return // the worker is ending
		}
		if last {
			return
		}
	}
	if serr := w.sendBLS(id, &infer.Response{Err: err, Final: true}, false); serr != nil {
		w.log.Debug("an error did not reach a model's process", "err", serr)
	}
}

// inferBLS hands a call to the server. Its errors are in the words of Triton's Python backend, which has one code for all.
func (w *Worker) inferBLS(r *infer.Request) error {
	switch {
	case w.spec.Caller == nil:
		return status.New(status.Unsupported, "this process may not call other models")
	case r.Origin.Depth() > mostNested:
		return refused(r, "models call each other more than %d levels deep; the last is '%s', called by '%s'", mostNested, r.ModelName, w.spec.ModelName)
	}
	err := w.spec.Caller.Infer(w.context(), r)
	switch {
	case err == nil:
		return nil
	case status.CodeOf(err) == status.NotFound:
		return refused(r, "Failed for execute the inference request. Model '%s' is not ready.", r.ModelName)
	}
	return refused(r, "%w", err)
}

// refused is the error of a call that the server does not take.
func refused(r *infer.Request, format string, args ...any) error {
	return status.Errorf(status.Internal, "Model %s - Error when running inference: %w", r.ModelName, fmt.Errorf(format, args...))
}

func (w *Worker) endBLS(id uint64) {
	w.mu.Lock()
	c := w.bls[id]
	delete(w.bls, id)
	w.mu.Unlock()
	if c != nil {
		c.r.Release()
	}
}

// sendBLS sends one response to a call. now: it is an error if the worker's socket is full.
func (w *Worker) sendBLS(id uint64, resp *infer.Response, now bool) error {
	if !w.hold() {
		return w.Err()
	}
	defer w.p.down.release()
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.arena = w.arena
	e.begin()
	if resp.Err != nil { // the codes of answers to calls are one in Triton
		resp.Err = status.New(status.Internal, resp.Err.Error())
	}
	err := e.response(resp)
	var packet []byte
	if err == nil {
		packet, err = e.finish(kindBLSResponse, 0, id)
	}
	switch {
	case err != nil:
	case now:
		err = w.p.sendNow(packet)
	default:
		err = w.send(packet)
	}
	if err != nil {
		e.drop()
	}
	clear(e.tail)
	e.arena = nil
	return err
}

// hold keeps the arenas while the caller uses them, until it releases w.p.down; false: the worker has ended.
func (w *Worker) hold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.p.down.refs.Add(1)
	}
	return !w.closed
}
