package worker

import (
	"nereid/engine/infer"
	"nereid/engine/worker/frames"
)

// Trace is the trace of a request in a process that is written in Go: it sends activities to the server. A request that
// the process makes for a traced one has the trace's Child.
type Trace struct {
	s       *server
	ticket  uint64
	Number  uint32 // of the trace; 0: not known
	Context string // see infer.PropagatedTrace; "": the trace has no spans
}

var _ infer.ActivityTrace = (*Trace)(nil)

// Admitted implements infer.Trace.
func (t *Trace) Admitted(*infer.Request) {}

// Responded implements infer.Trace.
func (t *Trace) Responded(*infer.Request, *infer.Response) {}

// Child implements infer.Trace. The server makes the trace of a call; this one only says of which request.
func (t *Trace) Child() infer.Trace { return t }

// Activity implements infer.ActivityTrace.
func (t *Trace) Activity(name string, at infer.Stamp) {
	t.ActivityAt(name, monotonic()-int64(infer.Now().Sub(at)))
}

// ActivityAt is Activity with a time in nanoseconds of CLOCK_MONOTONIC.
func (t *Trace) ActivityAt(name string, at int64) {
	t.s.sending.Lock()
	defer t.s.sending.Unlock()
	t.s.enc.Begin()
	t.s.enc.Activity(frames.Activity{Ticket: t.ticket, At: at, Name: name[:min(len(name), frames.MaxActivity)]})
	_ = t.s.send(frames.KindTrace, 0, 0) // without a connection the process ends
}

// traced records an activity of a process in the trace of its request. The error is a frame that does not decode.
func traced(w *Worker, body []byte) error {
	a, err := frames.ParseActivity(body)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.late[a.Ticket]
	if ex := w.current; ex != nil && a.Ticket-ex.first < uint64(len(ex.requests)) {
		q = &ex.requests[a.Ticket-ex.first]
	}
	if q == nil || q.done {
		return nil
	}
	if t, ok := q.r.Trace.(infer.ActivityTrace); ok && !q.r.Answered() {
		t.Activity(a.Name, w.clock.exact(a.At))
	}
	return nil
}
