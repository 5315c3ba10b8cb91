package grpcapi

import (
	"context"
	"sync"
)

// flow is a request of a stream to a decoupled model, and the infer.Waker of that request. Without a request it is the
// refusal of one.
type flow struct {
	all  *flows
	it   streamItem
	over bool // guarded by all.mu: it has its final response, or was cancelled
}

// Wake implements infer.Waker.
func (f *flow) Wake() {
	f.all.mu.Lock()
	f.all.ready = append(f.all.ready, f)
	f.all.mu.Unlock()
	f.all.signal()
}

// flows are the requests of a stream to decoupled models. One goroutine sends their responses and refusals, in the
// order in which they come. The zero value is not usable; see newFlows.
type flows struct {
	c    *streamCall
	once sync.Once     // starts the goroutine
	more chan struct{} // capacity 1: something was added to ready

	mu    sync.Mutex
	ready []*flow        // guarded by mu, as is all below: a flow for each response that is to be sent
	live  map[*flow]bool // those that wait for responses
	ended bool           // the goroutine sends nothing more
}

func newFlows(c *streamCall) *flows {
	return &flows{c: c, more: make(chan struct{}, 1), live: map[*flow]bool{}}
}

// infer passes a request to the engine. taken says that it is a flow now, with which the caller has nothing more to do
// but to release its own reference.
func (a *flows) infer(it streamItem) (taken bool, err error) {
	f := a.begin(it)
	if f == nil {
		return false, a.c.s.engine.Infer(a.c.ctx, it.r)
	}
	defer func() {
		if !taken { // also after a panic
			f.drop()
		}
	}()
	if err := a.c.s.engine.Infer(a.c.ctx, it.r); err != nil {
		return false, err
	}
	return f.admitted(), nil
}

// begin makes a flow of a request that is now passed to the engine. The flow has its own reference on it. It returns
// nil if the model is not decoupled, or if the call has ended.
func (a *flows) begin(it streamItem) *flow {
	if !a.c.s.decoupled(it.r) || !a.start() {
		return nil
	}
	it.decoupled = true
	f := &flow{all: a, it: it}
	it.r.Retain()
	it.r.Notify(f)
	return f
}

// refuse makes a flow of the error that answers a request. It returns false if the call has ended.
func (a *flows) refuse(it streamItem) bool {
	if !a.start() {
		return false
	}
	f := &flow{all: a, it: it}
	a.mu.Lock()
	ended := a.ended
	if !ended {
		a.live[f] = true
		a.ready = append(a.ready, f)
	}
	a.mu.Unlock()
	if ended {
		f.leave()
	} else {
		a.signal()
	}
	return true
}

// start adds a worker for a flow. It returns false if the call has ended.
func (a *flows) start() bool {
	if !a.c.add() {
		return false
	}
	a.once.Do(func() {
		a.c.senders.Add(1)
		go a.send()
	})
	return true
}

// signal says that something was added to ready.
func (a *flows) signal() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// admitted says that the engine has taken the request. It returns false if its model is not decoupled any more: then
// the request is not the flow's.
func (f *flow) admitted() bool {
	if !f.it.r.Served.Decoupled() {
		return false
	}
	f.all.mu.Lock()
	ended := f.all.ended
	if !f.over && !ended {
		f.all.live[f] = true
	}
	f.all.mu.Unlock()
	if ended {
		f.leave()
	}
	return true
}

// drop returns the request to the caller of begin. It does nothing if the flow is over.
func (f *flow) drop() {
	if !f.end() {
		return
	}
	f.it.r.Notify(nil)
	f.it.r.Release()
	f.all.c.workers.Done()
}

// end says that the flow is over. It returns false if it was before.
func (f *flow) end() bool {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	delete(f.all.live, f)
	was := f.over
	f.over = true
	return !was
}

// leave ends the flow of a call that has ended.
func (f *flow) leave() {
	if !f.end() {
		return
	}
	f.it.left()
	if f.it.r != nil {
		f.it.r.Cancel()
	}
	f.release()
}

// release releases what an ended flow holds.
func (f *flow) release() {
	if f.it.r != nil {
		f.it.r.Notify(nil)
	}
	f.it.record.Sent()
	f.it.trace.End()
	if f.it.r != nil {
		f.it.r.Release()
	}
	f.all.c.done()
	f.all.c.workers.Done()
}

// send sends responses until the call ends.
func (a *flows) send() {
	defer a.c.senders.Done()
	defer a.leave()
	defer a.c.rescue()
	for {
		select {
		case <-a.more:
		case <-a.c.ctx.Done():
			return
		}
		for f := a.next(); f != nil; f = a.next() {
			if a.c.ctx.Err() != nil {
				return
			}
			final, err := f.answer()
			if err != nil {
				a.c.cancel(err)
				return
			}
			if final && f.end() {
				f.release()
			}
		}
	}
}

// answer sends the next response, or the refusal. final says that it was the last one.
func (f *flow) answer() (final bool, err error) {
	c := f.all.c
	if f.it.r == nil {
		return true, c.refuse(f.it)
	}
	return c.pass(f.it, f.it.r.Poll())
}

// leave cancels the requests that wait for responses.
func (a *flows) leave() {
	a.c.cancel(context.Canceled)
	a.mu.Lock()
	a.ended = true
	var all []*flow
	for f := range a.live {
		all = append(all, f)
	}
	a.mu.Unlock()
	for _, f := range all {
		f.leave()
	}
}

// next returns the flow whose response is sent next, nil if none is ready. The request of the flow is valid until the
// flow ends; until the calling goroutine ends, only that ends it.
func (a *flows) next() *flow {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.ready) > 0 {
		f := a.ready[0]
		a.ready[0] = nil
		a.ready = a.ready[1:]
		if !f.over && (f.it.r == nil || f.it.r.Served.Decoupled()) {
			return f
		}
	}
	a.ready = nil
	return nil
}
