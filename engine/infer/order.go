package infer

import (
	"slices"
	"sync"
)

// Order delivers the responses of requests in the order in which the requests were added. A response that comes early
// waits for those of earlier requests. The zero value is empty. Safe for concurrent use.
type Order struct {
	mu         sync.Mutex
	head, tail *Request // guarded by mu, as are delivering and what ordered has but order
	delivering bool     // a goroutine delivers responses; it also takes those that are added meanwhile
}

// ordered is a request's part of an Order.
type ordered struct {
	order *Order // decides when a response is delivered; nil: at once
	Links[Request]
	waits bool        // it has a place in order
	held  []*Response // responses that wait for those of earlier requests
}

// Add puts r behind all requests that were added before. Call it once, before anything answers r. Order holds a
// reference on r until its final response.
func (o *Order) Add(r *Request) {
	r.Retain()
	r.ordered.order = o
	o.mu.Lock()
	defer o.mu.Unlock()
	r.ordered.waits, r.ordered.Prev = true, o.tail
	if o.tail == nil {
		o.head = r
	} else {
		o.tail.ordered.Next = r
	}
	o.tail = r
}

// LeaveOrder gives up r's place in its Order, if it has one: its responses are delivered at once, and so are those that
// waited only for r. Call it without a lock.
func (r *Request) LeaveOrder() {
	o := r.ordered.order
	if o == nil {
		return
	}
	o.mu.Lock()
	if !r.ordered.waits {
		o.mu.Unlock()
		return
	}
	o.remove(r)
	held := r.ordered.held
	r.ordered.held = nil
	o.mu.Unlock()
	for _, resp := range held {
		r.deliver(resp)
	}
	o.mu.Lock()
	o.flush()
	r.Release()
}

// remove removes r. o.mu is held.
func (o *Order) remove(r *Request) {
	at := &r.ordered.Links
	if at.Prev == nil {
		o.head = at.Next
	} else {
		at.Prev.ordered.Next = at.Next
	}
	if at.Next == nil {
		o.tail = at.Prev
	} else {
		at.Next.ordered.Prev = at.Prev
	}
	*at = Links[Request]{}
	r.ordered.waits = false
}

// deliver adds a response of r and delivers all responses that wait for no earlier request.
func (o *Order) deliver(r *Request, resp *Response) {
	o.mu.Lock()
	if !r.ordered.waits {
		o.mu.Unlock()
		r.deliver(resp)
		return
	}
	r.ordered.held = append(r.ordered.held, resp)
	o.flush()
}

// flush delivers all responses that wait for no earlier request. No lock is held while it delivers one. o.mu is held
// before, and not after.
func (o *Order) flush() {
	defer o.mu.Unlock()
	if o.delivering {
		return
	}
	o.delivering = true
	for o.head != nil && len(o.head.ordered.held) > 0 {
		front := o.head
		next := front.ordered.held[0]
		front.ordered.held = slices.Delete(front.ordered.held, 0, 1)
		final := next.Final // next belongs to its reader once it is delivered
		if final {
			o.remove(front)
		}
		o.mu.Unlock()
		front.deliver(next)
		if final {
			front.Release()
		}
		o.mu.Lock()
	}
	o.delivering = false
}
