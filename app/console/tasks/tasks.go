// Package tasks runs the console's background work and ends it when the console closes.
package tasks

import (
	"context"
	"sync"
)

// Group is a set of background tasks. It is safe for concurrent use.
type Group struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool // guarded by mu
}

// NewGroup returns a Group without tasks.
func NewGroup() *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Context ends when the Group closes.
func (g *Group) Context() context.Context { return g.ctx }

// Start runs a task on a goroutine. Its context ends with Close, or when the returned function is called. After Close,
// Start does nothing.
func (g *Group) Start(task func(context.Context)) (stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(g.ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(func() {
			defer cancel()
			task(ctx)
		})
	}
	return cancel
}

// Close ends the context of every task and waits for the tasks.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}
