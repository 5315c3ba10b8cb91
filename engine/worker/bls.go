package worker

import (
	"context"
	"fmt"
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

const (
	// maxNested is how deep models may call models.
	maxNested = 32
	// maxBLS is how many calls of other models a process may have unanswered.
	maxBLS = 1 << 16
)

// blsTable is the requests of a process to other models (BLS) that are not answered.
type blsTable struct {
	w    *Worker
	open map[uint64]*blsCall // guarded by w.mu: by the process's number for the call
}

// blsCall is a request of a process to another model.
type blsCall struct {
	frames.BLSRequest                 // the goroutine that serves the call releases its request
	id                uint64          // the process's number for the call
	first             *infer.Response // that has come already; nil: none
	unawaited         bool            // guarded by w.mu: no code waits for the answer, as far as is known
}

// responseEncoders are the encoders of responses to BLS requests, which several goroutines send.
var responseEncoders = sync.Pool{New: func() any { return &frames.Encoder{} }}

// begin decodes a BLS request and submits it to the server. A response that is there at once, as that of a model
// which runs on the caller's goroutine, is sent at once; otherwise a goroutine waits for it.
func (t *blsTable) begin(id uint64, body []byte) error {
	decoded, err := t.w.reader.dec.BLSRequest(body)
	if err != nil {
		return err
	}
	call := &blsCall{BLSRequest: decoded, id: id, unawaited: decoded.Unawaited}
	r := call.Request
	t.w.mu.Lock()
	r.Origin = t.origin(call)
	if t.open[id] != nil || len(t.open) >= maxBLS {
		t.w.mu.Unlock()
		r.Release()
		return status.Errorf(status.Internal, "it makes call %d again, or more than %d calls at once", id, maxBLS)
	}
	r.Retain() // the table's reference
	t.open[id] = call
	t.w.mu.Unlock()
	err = t.submit(r) // does not block
	if err == nil && !call.Stream && !r.Served.Decoupled() {
		call.first = r.Poll()
		if resp := call.first; resp != nil && resp.Final && t.send(id, resp, t.w.p.TrySend) == nil {
			resp.Release()
			t.end(id)
			r.Release()
			return nil
		}
	}
	t.w.tasks.Go(func() { t.serve(call, err) })
	return nil
}

// origin returns for which request a call is made: that of its parent, else that of the execution under way. All
// calls of a request that block the execution have one origin, and all others have another one. w.mu is held.
func (t *blsTable) origin(call *blsCall) *infer.Origin {
	w := t.w
	var parent *pending
	exec := uint64(0)
	if ex := w.current; ex != nil && len(ex.requests) > 0 {
		if i := call.Parent - ex.first; call.Parent == 0 && call.Blocking || i < uint64(len(ex.requests)) {
			exec = ex.id
			if call.Parent == 0 {
				i = 0
			}
			parent = &ex.requests[i]
		}
	}
	if parent == nil {
		parent = w.late[call.Parent]
	}
	if parent != nil && call.Traced && parent.r.Trace != nil && !parent.r.Answered() {
		call.Request.Trace = parent.r.Trace.Child()
	}
	if parent != nil && parent.r.Record != nil {
		call.Request.Record = parent.r.Record.Child("bls")
	}
	known := new(*infer.Origin)
	if parent != nil {
		known = &parent.others
		if call.Blocking {
			known = &parent.blocking
		}
	}
	if *known != nil {
		return *known
	}
	o := &infer.Origin{
		Model: w.spec.ModelName, Async: !call.Blocking,
		Busy: func() bool { return exec != 0 && w.running.Load() == exec },
	}
	if parent != nil {
		o.Parent = parent.r.Origin
	}
	*known = o
	return o
}

// cancel cancels a call on behalf of the process.
func (t *blsTable) cancel(id uint64) {
	t.w.mu.Lock()
	var r *infer.Request
	if c := t.open[id]; c != nil {
		r = c.Request.Retain()
	}
	t.w.mu.Unlock()
	if r != nil {
		r.Cancel()
		r.Release()
	}
}

// setAwaited notes whether code waits by now for a call that was made without.
func (t *blsTable) setAwaited(id uint64, body []byte) error {
	if len(body) != 1 {
		return status.Errorf(status.Internal, "the answer to BLS_WAIT has %d bytes, not 1", len(body))
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if c := t.open[id]; c != nil {
		c.unawaited = body[0] == 0
	}
	return nil
}

// end removes a call that is answered.
func (t *blsTable) end(id uint64) {
	t.w.mu.Lock()
	c := t.open[id]
	delete(t.open, id)
	t.w.mu.Unlock()
	if c != nil {
		c.Request.Release()
	}
}

// close cancels all calls: the process has ended.
func (t *blsTable) close() {
	t.w.mu.Lock()
	open := t.open
	t.open = nil
	t.w.mu.Unlock()
	for _, c := range open {
		c.Request.Cancel()
		c.Request.Release()
	}
}

// submit submits a call to the server. Its errors have the text of Triton's Python backend, which has one code for all.
func (t *blsTable) submit(r *infer.Request) error {
	w := t.w
	switch {
	case w.spec.Caller == nil:
		return status.New(status.Unsupported, "this process may not call other models")
	case r.Origin.Depth() > maxNested:
		return refused(r, "models call each other more than %d levels deep; the last is '%s', called by '%s'",
			maxNested, r.ModelName, w.spec.ModelName)
	}
	err := w.spec.Caller.Infer(w.ctx, r)
	switch {
	case err == nil:
		return nil
	case status.CodeOf(err) == status.NotFound:
		return refused(r, "Failed for execute the inference request. Model '%s' is not ready.", r.ModelName)
	}
	return refused(r, "%w", err)
}

// refused is the error of a call that the server does not accept.
func refused(r *infer.Request, format string, args ...any) error {
	return status.Errorf(status.Internal, "Model %s - Error when running inference: %w", r.ModelName,
		fmt.Errorf(format, args...))
}

// serve sends the responses of a call, or the error with which it was not accepted.
func (t *blsTable) serve(call *blsCall, err error) {
	r := call.Request
	defer r.Release()
	defer t.end(call.id)
	if err == nil && !call.Stream && r.Served.Decoupled() {
		r.Cancel()
		err = refused(r, "Model %s is using the decoupled. The current BLS request call doesn't support models "+
			"using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or "+
			"'async_exec' calls for decoupled models.'", r.ModelName)
	}
	for err == nil {
		var resp *infer.Response
		if resp, err = t.next(call); err != nil {
			break
		}
		last := resp.Final
		serr := t.send(call.id, resp, t.w.send)
		resp.Release()
		if serr != nil { // it cannot be encoded, there is no memory for it, or the process is ending
			r.Cancel()
			err = serr
			break
		}
		if last {
			return
		}
	}
	if serr := t.send(call.id, &infer.Response{Err: err, Final: true}, t.w.send); serr != nil {
		t.w.log.Debug("an error did not reach a model's process", "err", serr)
	}
}

// next returns the next response of a call. While it waits, it looks for cycles; the response of a call in a cycle is
// an error. The error of next is the end of the process.
func (t *blsTable) next(call *blsCall) (*infer.Response, error) {
	resp := call.first
	if call.first = nil; resp == nil {
		resp = call.Request.Poll()
	}
	for seen := 0; resp == nil; {
		ctx, stop := context.WithTimeout(t.w.ctx, cycleCheck)
		var err error
		resp, err = call.Request.Next(ctx)
		stop()
		if err != nil && t.w.ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			seen = t.failCycle(call, seen)
		}
	}
	return resp, nil
}

// send sends one response to a call by Worker.send or Process.TrySend.
func (t *blsTable) send(id uint64, resp *infer.Response, send func([]byte) error) error {
	w := t.w
	if !w.retain() {
		return w.Err()
	}
	defer w.down.Release()
	e := responseEncoders.Get().(*frames.Encoder)
	defer responseEncoders.Put(e)
	defer e.Reset()
	e.Arena = w.down
	e.Begin()
	if resp.Err != nil { // Triton has one code for all errors of BLS requests
		resp.Err = status.New(status.Internal, resp.Err.Error())
	}
	e.Responses(1)
	err := e.Response(resp, 0)
	var packet []byte
	if err == nil {
		packet, err = e.Finish(frames.KindBLSResponse, 0, id)
	}
	if err == nil {
		err = send(packet)
	}
	if err != nil {
		e.Drop()
	}
	return err
}
