package store

import (
	"context"
	"database/sql"
	"os"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// writer is the state of the goroutine that writes. Only that goroutine uses it.
type writer struct {
	s        *Store
	samples  []Sample // not yet written, oldest first
	events   []Event
	spans    []Span
	requests []Request
	series   map[seriesKey]int64
	wait     time.Duration // until the next try after a failure; 0 when the last write succeeded
	retry    *time.Timer
	prune    *time.Timer
	pruner   pruner
}

func newWriter(s *Store) *writer {
	w := &writer{
		s: s, series: make(map[seriesKey]int64),
		retry: time.NewTimer(time.Hour), prune: time.NewTimer(s.opt.PruneEvery),
		pruner: newPruner(s),
	}
	w.retry.Stop()
	return w
}

// run writes until the store is closed.
func (w *writer) run() {
	s := w.s
	defer close(s.done)
	defer w.retry.Stop()
	defer w.prune.Stop()
	for {
		select {
		case batch := <-s.samples:
			w.samples = append(w.samples, batch...)
			w.flush(false)
		case e := <-s.events:
			w.events = append(w.events, e)
			w.flush(false)
		case p := <-s.spans:
			w.spans = append(w.spans, p...)
			w.flush(false)
		case batch := <-s.requests:
			w.requests = append(w.requests, batch...)
			w.flush(false)
		case o := <-s.ops:
			o.done <- w.serve(o)
		case <-w.retry.C:
			w.flush(true)
		case <-w.prune.C:
			w.prune.Reset(w.pruner.step())
		case <-s.stop:
			w.flush(true)
			return
		}
	}
}

// take moves the queued rows to the pending rows, so that one transaction writes them, and enforces their limit.
func (w *writer) take() {
	for more := true; more; {
		select {
		case batch := <-w.s.samples:
			w.samples = append(w.samples, batch...)
		case e := <-w.s.events:
			w.events = append(w.events, e)
		case p := <-w.s.spans:
			w.spans = append(w.spans, p...)
		case batch := <-w.s.requests:
			w.requests = append(w.requests, batch...)
		default:
			more = false
		}
	}
	limit := w.s.opt.MaxPending
	lostSamples, lostEvents := max(len(w.samples)-limit, 0), max(len(w.events)-limit, 0)
	w.samples, w.events = w.samples[lostSamples:], w.events[lostEvents:]
	w.spans = w.spans[max(len(w.spans)-limit, 0):] // the caller repeats spans
	lostRequests := max(len(w.requests)-limit, 0)
	w.requests = w.requests[lostRequests:]
	w.dropped(lostSamples, lostEvents, lostRequests)
}

func (w *writer) dropped(samples, events, requests int) {
	w.s.health.change(func(h *Health) {
		h.DroppedSamples += uint64(samples)
		h.DroppedEvents += uint64(events)
		h.DroppedRequests += uint64(requests)
	})
}

// flush writes the pending and the queued rows in one transaction. After a failure it waits for the retry timer, unless
// now is true. It returns why rows were not written.
func (w *writer) flush(now bool) error {
	w.take()
	defer w.updatePending()
	if w.wait > 0 && !now || len(w.samples)+len(w.events)+len(w.spans)+len(w.requests) == 0 {
		return nil
	}
	err := w.inTx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		if err := w.writeSamples(ctx, tx); err != nil {
			return err
		}
		if err := w.writeSpans(ctx, tx); err != nil {
			return err
		}
		if err := w.writeRequests(ctx, tx); err != nil {
			return err
		}
		return writeEvents(ctx, tx, w.events)
	})
	switch {
	case err == nil:
		w.recovered()
		w.samples, w.events, w.spans, w.requests = nil, nil, nil, nil
	case isTransient(err):
		clear(w.series) // their rows may have been rolled back
		w.failed(err)
	default: // these rows would fail again
		clear(w.series)
		w.failed(err)
		w.dropped(len(w.samples), len(w.events), len(w.requests))
		w.samples, w.events, w.spans, w.requests = nil, nil, nil, nil
	}
	return err
}

func (w *writer) updatePending() {
	w.s.health.change(func(h *Health) { h.Pending = len(w.samples) + len(w.events) + len(w.requests) })
}

func (w *writer) failed(err error) {
	if w.wait == 0 {
		w.s.opt.Log.Error("history database cannot be written; keeping what is new in memory and trying again",
			"path", w.s.path, "err", err)
	}
	w.wait = min(max(2*w.wait, firstRetry), lastRetry)
	w.retry.Reset(w.wait)
	w.s.writeFailed(err)
}

// recovered updates the state after a write that succeeded.
func (w *writer) recovered() {
	w.wait = 0
	w.retry.Stop()
	var was bool
	w.s.health.change(func(h *Health) { was, h.Failing = h.Failing, false })
	if was {
		w.s.opt.Log.Info("history database is written again", "path", w.s.path)
	}
}

// writeFailed counts an error. If the database is damaged, the next Open checks the whole of it.
func (s *Store) writeFailed(err error) {
	s.health.change(func(h *Health) {
		h.WriteErrors++
		h.Failing, h.LastError = true, err.Error()
	})
	if s.path == "" || !isDamage(err) {
		return
	}
	if err := os.WriteFile(s.path+suspectSuffix, nil, 0o600); err != nil {
		s.opt.Log.Warn("history database is damaged and cannot be marked for a check", "path", s.path, "err", err)
	}
}

// serve runs an op with synchronous=FULL: its commit, and all commits before it, are synced to disk.
func (w *writer) serve(o *op) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	if o.do == nil {
		return w.flush(true)
	}
	ctx := context.WithoutCancel(o.ctx) // after a cancelled commit, nobody would know whether it took effect
	if _, err := w.s.w.ExecContext(ctx, "PRAGMA synchronous = FULL"); err != nil {
		return openError(w.s.path, err)
	}
	err := w.inTx(ctx, o.do)
	if _, e := w.s.w.ExecContext(ctx, "PRAGMA synchronous = NORMAL"); e != nil {
		w.s.opt.Log.Warn("history database: every commit is synced from now on", "err", e) // slower, but correct
	}
	switch {
	case err == nil:
		w.recovered()
		w.flush(true) // its failure is counted there and is not the op's
	case isTransient(err):
		w.s.writeFailed(err)
		return openError(w.s.path, err)
	}
	return err
}

func (w *writer) inTx(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	tx, err := w.s.w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(ctx, tx); err != nil {
		tx.Rollback() // its error would only repeat err
		return err
	}
	return tx.Commit()
}
