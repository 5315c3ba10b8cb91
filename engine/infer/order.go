package infer

import "sync"

// Order hands the responses of requests on in the order in which the requests were added: one that is answered early
// waits for those before it. The zero value is empty. Safe for concurrent use.
type Order struct {
	mu       sync.Mutex
	queue    []*Request // guarded by mu, as is all below, and each queued request's held
	head     int
	flushing bool // somebody hands responses on; it takes what comes meanwhile along
}

// Add puts r behind all that were added before. It is called once, before anything answers r, and takes a reference
// that goes with the final response.
func (o *Order) Add(r *Request) {
	r.Retain()
	r.order = o
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.head > 32 && o.head > len(o.queue)/2 {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	o.queue = append(o.queue, r)
}

// give takes a response of r, and hands on all whose turn has come. No lock is held while one is handed on.
func (o *Order) give(r *Request, resp *Response) {
	o.mu.Lock()
	r.held = append(r.held, resp)
	if o.flushing {
		o.mu.Unlock()
		return
	}
	o.flushing = true
	for o.head < len(o.queue) {
		front := o.queue[o.head]
		if len(front.held) == 0 {
			break
		}
		next := front.held[0]
		front.held = front.held[:copy(front.held, front.held[1:])]
		final := next.Final
		if final {
			o.queue[o.head] = nil
			if o.head++; o.head == len(o.queue) {
				o.queue, o.head = o.queue[:0], 0
			}
		}
		o.mu.Unlock()
		front.deliver(next)
		if final {
			front.Release()
		}
		o.mu.Lock()
	}
	o.flushing = false
	o.mu.Unlock()
}
