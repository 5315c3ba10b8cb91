package model

import (
	"sync"
	"sync/atomic"
)

// gate counts the requests inside a model, until it is closed and they are answered. Its methods are safe for
// concurrent use.
type gate struct {
	// inflight counts admitted requests without a final response; the top bit says that no more are admitted.
	inflight atomic.Int64
	drained  chan struct{} // closed when the gate is closed and inflight is 0
	once     sync.Once     // closes drained
	refused  sync.Once     // sets the top bit
}

const closing = int64(1) << 62

// Acquire reserves a place for one request. It returns false if the model is closing: the caller looks it up again.
// Infer uses the place up.
func (g *gate) Acquire() bool {
	if g.inflight.Add(1) >= closing {
		g.leave()
		return false
	}
	return true
}

// leave gives back the place of a request.
func (g *gate) leave() {
	if g.inflight.Add(-1) == closing {
		g.once.Do(func() { close(g.drained) })
	}
}

// shut makes Acquire fail from now on.
func (g *gate) shut() {
	g.refused.Do(func() {
		if g.inflight.Add(closing) == closing {
			g.once.Do(func() { close(g.drained) })
		}
	})
}

// Running returns the number of requests without a final response.
func (g *gate) Running() int { return int(g.inflight.Load() &^ closing) }

// Idle reports whether the model has no request.
func (g *gate) Idle() bool { return g.inflight.Load()&^closing == 0 }
