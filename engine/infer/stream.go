package infer

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// streamLimit is how many bytes of unread output a decoupled model may send before it blocks.
	streamLimit = 16 << 20
	// patientLimit is streamLimit for a patient request after a long wait; see stream.grow.
	patientLimit = 1 << 30
	// responseCost is the size of a response without its outputs, so that the limit also holds for empty responses.
	responseCost = 256
)

// stream is the queue of responses from backend to caller.
type stream struct {
	mu     sync.Mutex
	queue  fifo[*Response] // guarded by mu, as are the next up to waker
	bytes  int             // the size of the responses in queue
	limit  int             // of bytes; 0: streamLimit
	sent   int             // the bytes of all outputs that were put
	count  int             // of the responses that were put, without an empty one
	waker  Waker
	inline [1]*Response  // storage of queue for the usual single response
	wake   chan struct{} // capacity 1: something was put and waker is nil
	space  chan struct{} // capacity 1: something was taken
	unread atomic.Bool   // see CancelUnread
}

func (s *stream) init() {
	s.wake = make(chan struct{}, 1)
	s.space = make(chan struct{}, 1)
	s.queue.items = s.inline[:0]
}

func (s *stream) put(resp *Response, r *Request) {
	size := resp.size()
	s.mu.Lock()
	if s.full(size) {
		s.mu.Unlock()
		s.waitForSpace(size, r)
		s.mu.Lock()
	}
	s.queue.push(resp)
	s.bytes += size
	s.sent += size - responseCost
	if !resp.Empty {
		s.count++
	}
	if s.waker != nil {
		s.waker.Wake() // under mu, so that no call follows Notify(nil)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// WouldBlock reports whether Respond with resp would block. The result stays valid until another goroutine responds.
func (r *Request) WouldBlock(resp *Response) bool {
	size := resp.size()
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return r.stream.full(size)
}

// full reports whether a response of a size has to wait. The first one never waits. s.mu is held.
func (s *stream) full(size int) bool {
	return s.bytes > 0 && s.bytes+size > cmp.Or(s.limit, streamLimit)
}

// grow doubles the limit, up to patientLimit. The reader of a patient request may wait for something that can only
// happen when the model has sent its responses: a step of an ensemble for the instance that sends them.
func (s *stream) grow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = min(2*cmp.Or(s.limit, streamLimit), patientLimit)
}

// waitForSpace blocks until a response of a size fits or r is cancelled. After slowReaderTimeout it cancels r itself,
// or lets the stream of a patient request grow that is not bounded.
func (s *stream) waitForSpace(size int, r *Request) {
	timeout := time.NewTimer(slowReaderTimeout)
	defer timeout.Stop()
	for !r.Cancelled() {
		select {
		case <-s.space:
		case <-timeout.C:
			switch {
			case !r.Patient:
				r.CancelUnread()
			case !r.Bounded:
				s.grow()
				timeout.Reset(slowReaderTimeout)
			}
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
	if s.queue.len() == 0 {
		return nil
	}
	resp := s.queue.pop()
	s.bytes -= resp.size()
	select {
	case s.space <- struct{}{}:
	default:
	}
	return resp
}

// Answers returns how many responses the request has had, without an empty one, and the bytes of their outputs.
func (r *Request) Answers() (n, size int) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return r.stream.count, r.stream.sent
}

func (s *stream) drain() {
	for resp := s.take(); resp != nil; resp = s.take() {
		resp.Release()
	}
}

func (s *stream) reset() {
	s.waker, s.limit, s.sent, s.count = nil, 0, 0, 0
	s.unread.Store(false)
	select {
	case <-s.wake:
	default:
	}
	select {
	case <-s.space:
	default:
	}
	if cap(s.queue.items) > 64 {
		s.queue.items = s.inline[:0]
	}
}

// Next waits for the next response. If ctx ends first it returns ctx's error, but the request continues until Cancel is
// called. Only the caller that made the request may read, from one goroutine at a time, and not after a final response.
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

// Waker is notified when a request has a response. Wake is called on the goroutine that responds, with the request
// locked. It must not block or call methods of the request.
type Waker interface{ Wake() }

// Notify makes every later response call w.Wake. The caller then reads responses with Poll instead of Next. Call it
// before the request is handed to the engine. Notify(nil) ends the notifications: when it returns, no Wake is running.
func (r *Request) Notify(w Waker) {
	r.stream.mu.Lock()
	r.stream.waker = w
	r.stream.mu.Unlock()
}

// Poll returns the next response, nil if there is none yet. The rules for its caller are those of Next.
func (r *Request) Poll() *Response { return r.stream.take() }

// canceller is a flag with a channel that is made when Done is called first.
type canceller struct {
	flag  atomic.Bool // set under mu
	mu    sync.Mutex
	done  chan struct{} // guarded by mu, as is queue
	queue Queue         // is notified of the cancellation
}

func (c *canceller) reset() {
	c.flag.Store(false)
	c.done = nil
	c.queue = nil
}

// Cancel says that the response is not wanted any more. A request in a queue leaves it. A running batch is stopped only
// when all its requests are cancelled. Safe for concurrent use; later calls do nothing.
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

// CancelUnread is Cancel for a request whose responses are not read. Responses may be missing then, so that the final
// one will be an error. Safe for concurrent use.
func (r *Request) CancelUnread() {
	r.stream.unread.Store(true)
	r.Cancel()
}

// SetQueue sets the queue that is notified of a cancellation, before that queue takes the request. A queue that finds
// the request not cancelled after SetQueue is notified of every later cancellation.
func (r *Request) SetQueue(q Queue) {
	r.cancel.mu.Lock()
	r.cancel.queue = q
	r.cancel.mu.Unlock()
}

// Queue returns the queue that was set last with SetQueue, nil before. What the caller of SetQueue wrote to the request
// before the call can be read after Queue. Safe for concurrent use while the caller holds a reference.
func (r *Request) Queue() Queue {
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
