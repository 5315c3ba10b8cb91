package grpcapi

import (
	"context"
	"sync"
)

// flow is a request of a stream to a decoupled model, and the infer.Waker of that request.
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
	select {
	case f.all.more <- struct{}{}:
	default:
	}
}

// flows are the requests of a stream to decoupled models. One goroutine sends their responses, in the order in which
// the models send them. The zero value is not usable; see newFlows.
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

// begin makes a flow of a request that is now passed to the engine. The flow has its own reference on it. It returns
// nil if the model is not decoupled, or if the call has ended. The caller must call admitted or drop.
func (a *flows) begin(it streamItem) *flow {
	if !a.c.s.decoupled(it.r) || !a.c.add() {
		return nil
	}
	a.once.Do(func() {
		a.c.senders.Add(1)
		go a.send()
	})
	it.decoupled = true
	f := &flow{all: a, it: it}
	it.r.Retain()
	it.r.Notify(f)
	return f
}

// admitted says that the engine has taken the request. It returns false if its model is not decoupled any more: then
// the request is not the flow's.
func (f *flow) admitted() bool {
	if !f.it.r.Served.Decoupled() {
		f.drop()
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

// drop returns the request to the caller of begin.
func (f *flow) drop() {
	f.all.mu.Lock()
	f.over = true
	f.all.mu.Unlock()
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

// leave cancels the request of a call that has ended.
func (f *flow) leave() {
	if f.end() {
		f.it.r.Cancel()
		f.it.record.Left()
		f.release()
	}
}

// release releases what an ended flow holds.
func (f *flow) release() {
	f.it.r.Notify(nil)
	f.it.record.Sent()
	f.it.trace.End()
	f.it.r.Release()
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
			final, err := a.c.pass(f.it, f.it.r.Poll())
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
		if !f.over && f.it.r.Served.Decoupled() {
			return f
		}
	}
	a.ready = nil
	return nil
}
