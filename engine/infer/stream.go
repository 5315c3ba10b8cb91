package infer

import (
	"context"
	"sync"
	"sync/atomic"
)

// streamLimit is how many bytes of output may wait for a slow reader before a decoupled sender blocks.
const streamLimit = 16 << 20

// stream is the queue of responses from backend to caller.
type stream struct {
	mu     sync.Mutex
	queue  []*Response // guarded by mu, as are the next three
	head   int
	bytes  int
	inline [1]*Response
	wake   chan struct{} // capacity 1: something was put
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
	for s.bytes > 0 && s.bytes+size > streamLimit && !r.Cancelled() {
		s.mu.Unlock()
		select {
		case <-s.space:
		case <-r.Done():
		}
		s.mu.Lock()
	}
	s.queue = append(s.queue, resp)
	s.bytes += size
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
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

// canceller is a flag with a channel that is made only if somebody asks for it.
type canceller struct {
	flag atomic.Bool
	mu   sync.Mutex
	done chan struct{} // guarded by mu
}

func (c *canceller) reset() {
	c.flag.Store(false)
	c.done = nil
}

// Cancel tells the engine that nobody wants the answer. A request in a queue leaves it; a running batch is stopped
// only when all its requests are cancelled. Safe for concurrent use and more than once.
func (r *Request) Cancel() {
	if r.cancel.flag.Swap(true) {
		return
	}
	r.cancel.mu.Lock()
	defer r.cancel.mu.Unlock()
	if r.cancel.done != nil {
		close(r.cancel.done)
	}
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
