package infer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// streamLimit is how many bytes of output may wait for a slow reader before a decoupled sender blocks, responseCost what
// each response counts beside its output, so that empty ones are bounded too. After streamPatience of blocking the
// reader is taken for gone and the request is cancelled.
const (
	streamLimit    = 16 << 20
	responseCost   = 256
	streamPatience = time.Minute
)

// stream is the queue of responses from backend to caller.
type stream struct {
	mu     sync.Mutex
	queue  []*Response // guarded by mu, as are the next three
	head   int
	bytes  int
	inline [1]*Response
	wake   chan struct{} // capacity 1: something was put and waker is nil
	waker  Waker         // guarded by mu
	space  chan struct{} // capacity 1: something was taken
}

func (s *stream) init() {
	s.wake = make(chan struct{}, 1)
	s.space = make(chan struct{}, 1)
	s.queue = s.inline[:0]
}

func (s *stream) put(resp *Response, r *Request) {
	size := resp.size()
	s.mu.Lock()
	if s.full(size) {
		s.mu.Unlock()
		s.waitForSpace(size, r)
		s.mu.Lock()
	}
	if s.head > 32 && s.head > len(s.queue)/2 { // a reader that is always behind must not make the queue grow
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, resp)
	s.bytes += size
	if s.waker != nil {
		s.waker.Wake() // under mu: after Notify(nil) none comes any more
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Behind reports whether the reader is so far behind that Respond with resp would block. The answer stands for a goroutine
// that is the only one to respond.
func (r *Request) Behind(resp *Response) bool {
	size := resp.size()
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return r.stream.full(size)
}

// full reports whether a response of a size has to wait. The first one never has. s.mu is held.
func (s *stream) full(size int) bool { return s.bytes > 0 && s.bytes+size > streamLimit }

// waitForSpace blocks until a response of a size fits or r is cancelled, which it does itself when that takes too long.
func (s *stream) waitForSpace(size int, r *Request) {
	patience := time.NewTimer(streamPatience)
	defer patience.Stop()
	for !r.Cancelled() {
		select {
		case <-s.space:
		case <-patience.C:
			r.Cancel()
		case <-r.Done():
		}
		s.mu.Lock()
		full := s.full(size)
		s.mu.Unlock()
		if !full {
			return
		}
	}
}

func (s *stream) take() *Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		return nil
	}
	resp := s.queue[s.head]
	s.queue[s.head] = nil
	s.head++
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	s.bytes -= resp.size()
	select {
	case s.space <- struct{}{}:
	default:
	}
	return resp
}

func (s *stream) drain() {
	for resp := s.take(); resp != nil; resp = s.take() {
		resp.Release()
	}
}

func (s *stream) reset() {
	s.waker = nil
	select {
	case <-s.wake:
	default:
	}
	select {
	case <-s.space:
	default:
	}
	if cap(s.queue) > 64 {
		s.queue = s.inline[:0]
	}
}

// Next waits for the next response. It returns ctx's error if ctx ends first; the request goes on then, until
// somebody cancels it. Only the caller who made the request reads, from one goroutine at a time, and not after a
// final response.
func (r *Request) Next(ctx context.Context) (*Response, error) {
	for {
		if resp := r.stream.take(); resp != nil {
			return resp, nil
		}
		done := ctx.Done()
		if done == nil {
			<-r.stream.wake
			continue
		}
		select {
		case <-r.stream.wake:
		case <-done:
			return nil, ctx.Err()
		}
	}
}

// Waker hears that a request has a response to take. Wake is called on the goroutine that responds, with the request
// locked: it must not block and must not call the request.
type Waker interface{ Wake() }

// Notify makes w hear of every response that is put from now on; the caller then takes them with Poll in place of Next.
// Call it before the request is handed to the engine, and with nil to hear no more: after that no Wake runs or comes.
func (r *Request) Notify(w Waker) {
	r.stream.mu.Lock()
	r.stream.waker = w
	r.stream.mu.Unlock()
}

// Poll returns the next response, nil if there is none yet. Who may call it is as for Next.
func (r *Request) Poll() *Response { return r.stream.take() }

// canceller is a flag with a channel that is made only if somebody asks for it.
type canceller struct {
	flag atomic.Bool // set under mu
	mu   sync.Mutex
	done chan struct{} // guarded by mu, as is queue
	// queue hears of the cancellation.
	queue Queue
}

func (c *canceller) reset() {
	c.flag.Store(false)
	c.done = nil
	c.queue = nil
}

// Cancel tells the engine that nobody wants the answer. A request in a queue leaves it; a running batch is stopped
// only when all its requests are cancelled. Safe for concurrent use and more than once.
func (r *Request) Cancel() {
	r.cancel.mu.Lock()
	if r.cancel.flag.Swap(true) {
		r.cancel.mu.Unlock()
		return
	}
	if r.cancel.done != nil {
		close(r.cancel.done)
	}
	q := r.cancel.queue
	r.cancel.mu.Unlock()
	if q != nil {
		q.Cancelled(r)
	}
}

// WaitIn says who is to hear of a cancellation: the queue that is about to take the request. A queue that sees the
// request not cancelled after WaitIn hears of every cancellation that comes later.
func (r *Request) WaitIn(q Queue) {
	r.cancel.mu.Lock()
	r.cancel.queue = q
	r.cancel.mu.Unlock()
}

// In returns the queue that WaitIn was called with last, nil before. What its caller set in the request before that can be
// read after it. Safe for concurrent use while the caller holds a reference.
func (r *Request) In() Queue {
	r.cancel.mu.Lock()
	defer r.cancel.mu.Unlock()
	return r.cancel.queue
}

// Cancelled reports whether Cancel was called.
func (r *Request) Cancelled() bool { return r.cancel.flag.Load() }

// Done returns a channel that is closed when the request is cancelled.
func (r *Request) Done() <-chan struct{} {
	r.cancel.mu.Lock()
	defer r.cancel.mu.Unlock()
	if r.cancel.done == nil {
		r.cancel.done = make(chan struct{})
		if r.cancel.flag.Load() {
			close(r.cancel.done)
		}
	}
	return r.cancel.done
}
