package onnxruntime

import (
	"context"
	"sync"
	"time"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
)

// watchEvery is how often a run in progress is looked at.
const watchEvery = 10 * time.Millisecond

// watch stops a run for which nobody waits any more, or whose instance goes away. Its timer runs only while the
// instance is busy, so that short runs pay for two uncontended locks and idle instances for nothing.
type watch struct {
	runner *capi.Runner

	mu      sync.Mutex
	timer   *time.Timer
	batch   *infer.Batch // guarded by mu, as all below: the run in progress
	ctx     context.Context
	ticking bool // the timer is set
	idle    bool // no run began since the last tick
	stopped bool // the run in progress was told to stop
	closed  bool
}

func newWatch(r *capi.Runner) *watch {
	w := &watch{runner: r}
	w.timer = time.AfterFunc(time.Hour, w.tick)
	w.timer.Stop()
	return w
}

func (w *watch) begin(ctx context.Context, b *infer.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch, w.ctx, w.idle, w.stopped = b, ctx, false, false
	if !w.ticking {
		w.ticking = true
		w.timer.Reset(watchEvery)
	}
}

// end reports whether the run was told to stop.
func (w *watch) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch, w.ctx = nil, nil
	return w.stopped
}

func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.batch == nil && w.idle {
		w.ticking = false
		return
	}
	w.idle = true
	if w.batch != nil && !w.stopped && (w.ctx.Err() != nil || w.batch.AllCancelled()) {
		w.stopped = w.runner.Terminate() == nil
	}
	w.timer.Reset(watchEvery)
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
}
