package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"nereid/engine/client"
)

// Stream is a Target that sends all requests over a few bidirectional gRPC calls.
type Stream struct {
	c         *client.GRPC
	decoupled bool
	lanes     []*lane
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

var _ Target = (*Stream)(nil)

// NewStream opens n calls. With decoupled a request has any number of responses, the last of which is marked as final.
// Close ends the calls and closes the client.
func NewStream(c *client.GRPC, n int, decoupled bool) (*Stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{c: c, decoupled: decoupled, cancel: cancel}
	for range max(1, n) {
		call, err := c.Stream(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		l := &lane{call: call, cancel: cancel, waiting: map[string]*waiter{}}
		s.lanes = append(s.lanes, l)
		s.wg.Go(func() { l.read(decoupled) })
	}
	return s, nil
}

// Close implements Target.
func (s *Stream) Close() error {
	s.cancel()
	s.wg.Wait()
	return s.c.Close()
}

// Infer implements Target.
func (s *Stream) Infer(ctx context.Context, by int, r *Request, c *Call) error {
	return s.lanes[by%len(s.lanes)].infer(ctx, r, c)
}

// lane is one bidirectional call.
type lane struct {
	call   *client.Stream
	cancel context.CancelFunc // of all calls
	sendMu sync.Mutex         // serializes sending

	mu      sync.Mutex
	waiting map[string]*waiter // guarded by mu
	ended   error              // guarded by mu: why the call has ended
}

// waiter is a request in flight. The reading goroutine fills in the call's times and responses until it closes done;
// the sending goroutine fills in how long sending took.
type waiter struct {
	c    *Call
	err  error
	done chan struct{}
}

func (l *lane) infer(ctx context.Context, r *Request, c *Call) error {
	w := &waiter{c: c, done: make(chan struct{})}
	l.mu.Lock()
	if l.ended != nil {
		defer l.mu.Unlock()
		return l.ended
	}
	l.waiting[r.ID] = w
	l.mu.Unlock()
	// Sending waits while the server does not read, and knows nothing of ctx. When that ends, so do all requests.
	stop := context.AfterFunc(ctx, l.cancel)
	l.sendMu.Lock()
	begin := time.Now()
	err := l.call.Send(&r.Request)
	c.Send = time.Since(begin)
	l.sendMu.Unlock()
	stop()
	if err != nil && !errors.Is(err, io.EOF) { // after io.EOF the reading goroutine has the reason
		l.take(r.ID)
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if l.take(r.ID) == nil {
		<-w.done // the reading goroutine has taken it
		return w.err
	}
	return ctx.Err()
}

// take removes and returns a waiter; nil if there is none.
func (l *lane) take(id string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting[id]
	delete(l.waiting, id)
	return w
}

// read passes responses to their requests until the call ends. Then the remaining requests fail.
func (l *lane) read(decoupled bool) {
	for {
		r, err := l.call.Recv()
		if err != nil {
			l.end(err)
			return
		}
		if l.response(r, !decoupled) {
			if w := l.take(r.ID); w != nil {
				close(w.done)
			}
		}
	}
}

// response adds a response to its call and reports whether it is the last one.
func (l *lane) response(r *client.Response, single bool) (last bool) {
	l.mu.Lock()
	w := l.waiting[r.ID]
	if w == nil {
		l.mu.Unlock()
		return false // its request was cancelled
	}
	defer l.mu.Unlock()
	now := time.Now()
	c := w.c
	if c.First.IsZero() {
		c.First = now
	}
	c.End = now
	if r.Err != nil {
		w.err = r.Err
		return true
	}
	if len(r.Outputs) > 0 || single {
		c.Responses++
		c.Last = r
		if c.Keep {
			c.Answers = append(c.Answers, Answer{At: now, Response: r})
		}
	}
	return single || r.Final
}

// end fails the requests in flight.
func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, io.EOF) {
		err = errors.New("the server has closed the stream")
	}
	l.ended = fmt.Errorf("the stream ended: %w", err)
	for id, w := range l.waiting {
		w.err = l.ended
		close(w.done)
		delete(l.waiting, id)
	}
}
