package onnxruntime

import (
	"context"
	"sync"
	"time"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
)

// canceller terminates a run when all its requests are cancelled or the instance is closed. Its timer runs only while
// the instance is busy: a short run costs two uncontended locks, an idle instance nothing.
type canceller struct {
	runner *capi.Runner

	mu         sync.Mutex
	timer      *time.Timer
	batch      *infer.Batch // the run in progress; this field and the following are guarded by mu
	ctx        context.Context
	ticking    bool // the timer is set
	idle       bool // no run has started since the last tick
	terminated bool // the run in progress was terminated
}

func newCanceller(r *capi.Runner) *canceller {
	c := &canceller{runner: r}
	c.timer = time.AfterFunc(time.Hour, c.tick)
	c.timer.Stop()
	return c
}

// begin is called before a run.
func (c *canceller) begin(ctx context.Context, b *infer.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch, c.ctx, c.idle, c.terminated = b, ctx, false, false
	if !c.ticking {
		c.ticking = true
		c.timer.Reset(cancelCheckInterval)
	}
}

// end is called after a run. It reports whether the run was terminated.
func (c *canceller) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch, c.ctx = nil, nil
	return c.terminated
}

func (c *canceller) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil && c.idle {
		c.ticking = false
		return
	}
	c.idle = true
	if c.batch != nil && !c.terminated && (c.ctx.Err() != nil || c.batch.AllCancelled()) {
		c.terminated = c.runner.Terminate() == nil
	}
	c.timer.Reset(cancelCheckInterval)
}
