package model

import (
	"sync"
	"sync/atomic"
)

// gate counts the requests inside a model, until it is closed and they are answered. A request of an ensemble holds the
// gates of the models of its steps until it ends. A gate that is held stays open for those that hold it, and for no
// others. The methods are safe for concurrent use.
type gate struct {
	// inflight has, from its lowest bits: the admitted requests without a final response, the holds, and two flags.
	inflight atomic.Int64
	drained  chan struct{} // closed when the gate is closed, and has no requests and no holds that count
	once     sync.Once     // closes drained
	refused  sync.Once     // sets the flag closing
}

const (
	oneHold  = int64(1) << 30
	requests = oneHold - 1        // the bits of the requests
	holds    = requests * oneHold // the bits of the holds
	dropped  = int64(1) << 61     // the holds do not count any more
	closing  = int64(1) << 62     // only holders may enter
)

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
func (g *gate) leave() { g.changed(g.inflight.Add(-1)) }

// changed closes drained, if that is due at a count.
func (g *gate) changed(n int64) {
	if n >= closing && n&requests == 0 && (n&holds == 0 || n&dropped != 0) {
		g.once.Do(func() { close(g.drained) })
	}
}

// Hold keeps the model from being closed until Unhold, so that acquireHeld can succeed. It returns false if the model
// is closing, unless another hold keeps it open.
func (g *gate) Hold() bool {
	for {
		n := g.inflight.Load()
		if n >= closing && (n&holds == 0 || n&dropped != 0) {
			return false
		}
		if g.inflight.CompareAndSwap(n, n+oneHold) {
			return true
		}
	}
}

// Unhold ends a hold.
func (g *gate) Unhold() { g.changed(g.inflight.Add(-oneHold)) }

// acquireHeld is Acquire for the holder of a hold: it succeeds also if the model is closing, until DropHolds.
func (g *gate) acquireHeld() bool {
	if g.inflight.Add(1)&dropped != 0 {
		g.leave()
		return false
	}
	return true
}

// DropHolds lets the model close although it is held.
func (g *gate) DropHolds() { g.changed(g.inflight.Or(dropped) | dropped) }

// shut makes Acquire fail from now on.
func (g *gate) shut() { g.refused.Do(func() { g.changed(g.inflight.Add(closing)) }) }

// Running returns the number of requests without a final response.
func (g *gate) Running() int { return int(g.inflight.Load() & requests) }

// alone reports whether the model has one request, and is not closing.
func (g *gate) alone() bool { return g.inflight.Load()&^(holds|dropped) == 1 }

// Idle reports whether the model has no request.
func (g *gate) Idle() bool { return g.inflight.Load()&requests == 0 }
