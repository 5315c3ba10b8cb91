package app

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"sync"

	"nereid/app/options"
	"nereid/engine/grpcapi"
	"nereid/engine/restrict"
	"nereid/engine/status"
)

// Front is the front ends of an Embedded server that were opened after it was made.
type Front struct {
	s     *server // has only what front ends need
	close func()
}

// fronted are the front ends of an Embedded that are open.
type fronted struct {
	mu    sync.Mutex
	open  map[*Front]bool // guarded by mu
	ended bool            // none may be opened; guarded by mu
}

// OpenFront serves the engine on the ports that the options of a command line turn on. The caller closes the front, or
// it is closed with the server. Errors: InvalidArg for wrong options and ports in use, Unavailable after the end.
//
// Whether clients may register shared memory is decided when the server is made. A front that other machines can reach
// does not let them, unless the options say so.
func (e *Embedded) OpenFront(ctx context.Context, args []string) (*Front, error) {
	c, err := options.LoadEmbedded(args, os.LookupEnv)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "%w", err)
	}
	if c.Engine.SharedMemory.Disabled {
		c.HTTP.Restricted = withoutSharedMemory(c.HTTP.Restricted, "")
		c.GRPC.Restricted = withoutSharedMemory(c.GRPC.Restricted, grpcapi.RestrictedPrefix)
	}
	s := &server{c: c, log: e.s.log, logControl: e.s.logControl, tokens: e.s.tokens, store: e.s.store, data: e.s.data,
		backends: e.s.backends, cache: e.s.cache, engine: e.s.engine, trace: e.s.trace,
		tasks: tasks{failed: make(chan error, 1)}}
	s.fronts = &fronts{c: c, log: s.log, tokens: s.tokens, tasks: &s.tasks, memory: e.s.fronts.memory}
	f := &Front{s: s}
	f.close = sync.OnceFunc(f.shutdown)
	e.fronts.mu.Lock()
	defer e.fronts.mu.Unlock()
	if e.fronts.ended {
		return nil, status.New(status.Unavailable, "the server has stopped")
	}
	if err := s.openListeners(); err != nil {
		return nil, status.Errorf(status.InvalidArg, "%w", err)
	}
	if err := s.openFronts(ctx); err != nil {
		s.fronts.listeners.Close()
		return nil, status.Errorf(status.InvalidArg, "%w", err)
	}
	s.fronts.serve()
	s.fronts.announce()
	e.fronts.open[f] = true
	return f, nil
}

// withoutSharedMemory adds a rule that no client can meet, unless the group has one. r may be nil.
func withoutSharedMemory(r *restrict.Rules, prefix string) *restrict.Rules {
	if r == nil {
		r = &restrict.Rules{}
	}
	if !slices.Contains(r.Restricted(), restrict.SharedMemory) {
		_ = r.Add("shared-memory:nereid-no-client="+rand.Text(), prefix) // its form is right
	}
	return r
}

// CloseFront accepts no more requests, and waits for those under way, at most for the exit timeout. Closing a front
// again does nothing.
func (e *Embedded) CloseFront(f *Front) {
	e.fronts.mu.Lock()
	delete(e.fronts.open, f)
	e.fronts.mu.Unlock()
	f.close()
}

// shutdown closes the front.
func (f *Front) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), f.s.c.ExitTimeout)
	defer cancel()
	f.s.fronts.shutdown(ctx, nil)
	f.s.fronts.listeners.Close()
	f.s.tasks.wg.Wait()
}

// close closes all fronts. No more can be opened.
func (o *fronted) close() {
	o.mu.Lock()
	o.ended = true
	open := o.open
	o.open = nil
	o.mu.Unlock()
	for f := range open {
		f.close()
	}
}
