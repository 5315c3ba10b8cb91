package worker

import (
	"errors"
	"io"
	"time"

	"nereid/engine/infer"
)

// Frames are read by one goroutine at a time, who has the turn. While nothing is executed that is life. An execution of a
// model that is not decoupled takes the turn over: the goroutine that sent the batch reads until its answer is there,
// which saves two changes of goroutine a batch. Life takes the turn back when nothing has been executed for a while; until
// then what a model sends between executions waits that long.

// turnAfter is how long nobody reads at most. It is also how often life looks after an execution that reads for itself.
const turnAfter = 5 * time.Millisecond

// read is life's: it reads, or looks after those who do, until the stream ends. nil: it ended, else a frame that cannot be.
func (w *Worker) read() error {
	for {
		if err := w.readHere(); err != nil {
			return ended(err)
		}
		if err, over := w.look(); over {
			return err
		}
	}
}

// ended returns nil for the end of the stream.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readHere reads until an execution is over, then gives the turn up. The error is readOne's.
func (w *Worker) readHere() error {
	for {
		before := w.finishes
		if err := w.readOne(); err != nil {
			return err
		}
		if before != w.finishes && w.stepBack() {
			return nil
		}
	}
}

// stepBack gives the turn up unless an execution has begun that counts on life, or always does.
func (w *Worker) stepBack() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != nil || w.spec.Decoupled {
		return false
	}
	w.reading = false
	return true
}

// look waits until nothing has been executed for turnAfter, and takes the turn; or until who has it finds the end: over.
func (w *Worker) look() (err error, over bool) {
	tick := time.NewTicker(turnAfter)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case <-w.gone:
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.broken, true
		case <-tick.C:
		}
		w.mu.Lock()
		if !w.reading && last == w.numbers.exec {
			w.reading = true
			w.mu.Unlock()
			return nil, false
		}
		last = w.numbers.exec
		kill := w.reading && w.overdue()
		left := w.abandoned()
		w.mu.Unlock()
		if kill {
			_ = w.p.proc.Kill() // who reads finds the end of the stream
		}
		if left != nil {
			left.Cancel()
			left.Release()
		}
	}
}

// overdue reports whether the execution under way is to be broken off. w.mu is held.
func (w *Worker) overdue() bool {
	ex := w.cur
	if ex == nil {
		return false
	}
	d := w.spec.Limits.Execute
	ex.late = d > 0 && time.Since(ex.began) > d
	return ex.late || ex.ctx.Err() != nil
}

// abandoned returns a request under way, retained, whose client has gone while the goroutine that brought it waits here; nil:
// there is none. w.mu is held.
func (w *Worker) abandoned() *infer.Request {
	if w.cur == nil {
		return nil
	}
	for i := range w.cur.lives {
		if l := &w.cur.lives[i]; !l.done && l.r.Client != nil && !l.r.Cancelled() && l.r.Client.Err() != nil {
			return l.r.Retain()
		}
	}
	return nil
}

// lead reads until an execution that took the turn is over. It returns the execution's error.
func (w *Worker) lead(ex *execution) error {
	for {
		err := w.readOne()
		if err != nil {
			w.mu.Lock()
			w.broken = ended(err)
			w.mu.Unlock()
			w.gone <- struct{}{}
			<-w.dead
			return w.ending(ex)
		}
		select {
		case <-ex.done:
			w.mu.Lock()
			w.reading = false
			w.mu.Unlock()
			return ex.err
		default:
		}
	}
}

// lastWords are why an execution failed that was under way when its worker ended.
func (w *Worker) lastWords(ex *execution) error {
	if ex.late {
		return w.errTooLong()
	}
	return w.Err()
}
