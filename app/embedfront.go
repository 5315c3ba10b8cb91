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

// openFronts are the front ends of an Embedded that are open.
type openFronts struct {
	mu      sync.Mutex
	all     map[*Front]bool // guarded by mu
	stopped bool            // none may be opened; guarded by mu
}

// OpenFront serves the engine on the ports that the options of a command line turn on. The caller closes the front, or
// it is closed with the server. Errors: InvalidArg for wrong options and ports in use, Unavailable after the end.
//
// Clients may register shared memory if the options of the server, not of the front, allow it. A front that other
// machines can reach also needs the option for it.
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
	e.openFronts.mu.Lock()
	defer e.openFronts.mu.Unlock()
	if e.openFronts.stopped {
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
	e.openFronts.all[f] = true
	return f, nil
}

// withoutSharedMemory adds a rule for shared memory that no client can satisfy, unless there is one already. r may be
// nil.
func withoutSharedMemory(r *restrict.Rules, prefix string) *restrict.Rules {
	if r == nil {
		r = &restrict.Rules{}
	}
	if !slices.Contains(r.Restricted(), restrict.SharedMemory) {
		_ = r.Add("shared-memory:nereid-no-client="+rand.Text(), prefix) // the text is valid
	}
	return r
}

// CloseFront accepts no more requests, and waits for those under way, at most for the exit timeout. Closing a front
// again does nothing.
func (e *Embedded) CloseFront(f *Front) {
	e.openFronts.mu.Lock()
	delete(e.openFronts.all, f)
	e.openFronts.mu.Unlock()
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
func (o *openFronts) close() {
	o.mu.Lock()
	o.stopped = true
	all := o.all
	o.all = nil
	o.mu.Unlock()
	for f := range all {
		f.close()
	}
}
