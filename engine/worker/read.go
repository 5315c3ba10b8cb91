package worker

import (
	"encoding/json"
	"errors"
	"io"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

// reader reads the frames of a worker. One goroutine at a time reads. By default that is the worker's read loop.
// During an execution of a model that is not decoupled, the goroutine in Execute reads instead, until the execution
// is over; this avoids two goroutine switches per batch. The read loop takes over again idleRead after the last
// execution.
type reader struct {
	w   *Worker
	dec *frames.Decoder // of the goroutine that reads, as are the next
	buf []byte

	finished int        // executions that are over
	active   bool       // guarded by w.mu: a goroutine reads
	ended    chan error // capacity 1: why a goroutine in Execute could not read on; nil: the end of the stream
}

// run is the read loop. It reads, or waits while executions read, until the stream ends. The error is a frame that
// does not decode; nil: the stream ended.
func (r *reader) run() error {
	for {
		if err := r.readUntilIdle(); err != nil {
			return withoutEOF(err)
		}
		if err, ended := r.standBy(); ended {
			return err
		}
	}
}

// withoutEOF returns nil for the end of the stream.
func withoutEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readUntilIdle reads until an execution is over and none follows that relies on the read loop. The error is readOne's.
func (r *reader) readUntilIdle() error {
	for {
		before := r.finished
		if err := r.readOne(); err != nil {
			return err
		}
		if before != r.finished && r.yield() {
			return nil
		}
	}
}

// yield stops the reading by the read loop, unless an execution has begun that relies on it, or all executions do.
func (r *reader) yield() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.current != nil || r.w.spec.Decoupled {
		return false
	}
	r.active = false
	return true
}

// standBy waits until nothing has been executed for idleRead, and then takes over the reading; or until a goroutine in
// Execute finds that the stream has ended. Meanwhile it kills the process if an execution takes too long, and cancels
// requests whose client has left.
func (r *reader) standBy() (err error, ended bool) {
	w := r.w
	tick := time.NewTicker(idleRead)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case err := <-r.ended:
			return err, true
		case <-tick.C:
		}
		w.mu.Lock()
		if !r.active && last == w.lastExec {
			r.active = true
			w.mu.Unlock()
			return nil, false
		}
		last = w.lastExec
		kill := r.active && w.current != nil && w.current.overdue(w.spec.Limits.Execute)
		w.mu.Unlock()
		if kill {
			w.stop() // the goroutine that reads finds the end of the stream
		}
		r.cancelAbandoned()
	}
}

// readExecution reads until the execution is over, in place of the read loop. It returns the execution's error.
func (r *reader) readExecution(ex *execution) error {
	for {
		if err := r.readOne(); err != nil {
			r.ended <- withoutEOF(err)
			<-r.w.dead
			return r.w.outcome(ex)
		}
		select {
		case <-ex.done:
			r.w.mu.Lock()
			r.active = false
			r.w.mu.Unlock()
			return ex.err
		default:
		}
	}
}

// readOne reads a frame and handles it. io.EOF is the end of the stream; another error is a frame that does not decode.
func (r *reader) readOne() error {
	n, err := r.w.p.Socket.Read(r.buf)
	// If the process left frames unread, the first read fails with this error; its own frames follow.
	if errors.Is(err, syscall.ECONNRESET) {
		n, err = r.w.p.Socket.Read(r.buf)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return io.EOF
	case err != nil:
		return status.Errorf(status.Internal, "reading from it failed: %w", err)
	case n > frames.MaxPacket:
		return status.Errorf(status.Internal, "it sent a packet of more than %d bytes", frames.MaxPacket)
	}
	defer r.dec.Close()
	h, body, err := r.dec.Open(r.buf[:n])
	if err != nil {
		return err
	}
	return r.handle(h, body)
}

func (r *reader) handle(h frames.Header, body []byte) error {
	w := r.w
	switch h.Kind {
	case frames.KindResponses:
		return w.responses(h, body)
	case frames.KindBLS:
		return w.bls.begin(h.ID, body)
	case frames.KindBLSCancel:
		w.bls.cancel(h.ID)
	case frames.KindBLSWait:
		return w.bls.setAwaited(h.ID, body)
	case frames.KindReply:
		w.calls.replied(h.ID, body)
	case frames.KindCall:
		return w.calls.answer(h.ID, body)
	case frames.KindLog:
		return w.logLine(body)
	case frames.KindTrace:
		return traced(w, body)
	case frames.KindReport:
		return w.reported(body)
	case frames.KindMetric:
		return w.changeMetrics(body)
	case frames.KindHello:
		select {
		case <-w.greeted:
			return status.New(status.Internal, "it said hello twice")
		default:
		}
		if err := json.Unmarshal(body, &w.hello); err != nil {
			return status.Errorf(status.Internal, "its hello is not understood: %w", err)
		}
		close(w.greeted)
	default:
		return status.Errorf(status.Internal, "it sent a frame of the unknown kind %d", h.Kind)
	}
	return nil
}

// cancelAbandoned cancels a request that is being executed if its client has left.
func (r *reader) cancelAbandoned() {
	r.w.mu.Lock()
	left := r.w.current.abandoned()
	r.w.mu.Unlock()
	if left != nil {
		left.Cancel()
		left.Release()
	}
}

// overdue reports whether the execution takes longer than its limit, or its context has ended. w.mu is held.
func (ex *execution) overdue(limit time.Duration) bool {
	ex.tooLong = limit > 0 && time.Since(ex.began) > limit
	return ex.tooLong || ex.ctx.Err() != nil
}

// abandoned returns a request of the execution whose client has left, with a reference; nil: there is none. The
// goroutine that brought the request is in Execute, so that it cannot notice. w.mu is held; ex may be nil.
func (ex *execution) abandoned() *infer.Request {
	if ex == nil {
		return nil
	}
	for i := range ex.requests {
		q := &ex.requests[i]
		if !q.done && q.r.Client != nil && !q.r.Cancelled() && q.r.Client.Err() != nil {
			return q.r.Retain()
		}
	}
	return nil
}
