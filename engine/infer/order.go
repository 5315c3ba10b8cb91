package infer

import (
	"slices"
	"sync"
)

// Order delivers the responses of requests in the order in which the requests were added. A response that comes early
// waits for those of earlier requests. The zero value is empty. Safe for concurrent use.
type Order struct {
	mu         sync.Mutex
	queue      fifo[*Request] // guarded by mu, as are delivering and each queued request's held
	delivering bool           // a goroutine delivers responses; it also takes those that are added meanwhile
}

// Add puts r behind all requests that were added before. Call it once, before anything answers r. Order holds a
// reference on r until its final response.
func (o *Order) Add(r *Request) {
	r.Retain()
	r.order = o
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.push(r)
}

// deliver adds a response of r and delivers all responses that wait for no earlier request. No lock is held while it
// delivers one.
func (o *Order) deliver(r *Request, resp *Response) {
	o.mu.Lock()
	r.held = append(r.held, resp)
	if o.delivering {
		o.mu.Unlock()
		return
	}
	o.delivering = true
	for o.queue.len() > 0 && len(o.queue.front().held) > 0 {
		front := o.queue.front()
		next := front.held[0]
		front.held = slices.Delete(front.held, 0, 1)
		if next.Final {
			o.queue.pop()
		}
		final := next.Final // next belongs to its reader once it is delivered
		o.mu.Unlock()
		front.deliver(next)
		if final {
			front.Release()
		}
		o.mu.Lock()
	}
	o.delivering = false
	o.mu.Unlock()
}
