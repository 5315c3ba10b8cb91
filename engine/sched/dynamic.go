package sched

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// Dynamic is the default scheduler and the dynamic batcher. Batches are cut in order of priority and arrival.
type Dynamic struct {
	policy       Policy
	maxPreferred int
	compares     bool // not every two requests may share a batch
	order        infer.Order

	mu     sync.Mutex
	queue  queue     // guarded by mu, as is all below
	idle   []*waiter // instances that wait for any work; the last one that came is woken first
	leader *waiter   // the instance that waits for the queue's head to become due
	spare  []*waiter // for reuse
	closed bool
	timer  *time.Timer // calls expire; nil until a request has a timeout
	alarm  infer.Stamp // when the timer is set to go off; 0: it is not
}

var (
	_ Batcher     = (*Dynamic)(nil)
	_ infer.Queue = (*Dynamic)(nil)
)

// waiter is an instance inside Next.
type waiter struct {
	wake  chan struct{} // capacity 1
	timer *time.Timer
}

// NewDynamic returns a batcher. The policy comes from a valid configuration.
func NewDynamic(p Policy) *Dynamic {
	d := &Dynamic{policy: p, maxPreferred: p.MaxBatchSize, queue: newQueue(&p), compares: p.SameInputs || len(p.Equal) > 0}
	if len(p.Preferred) > 0 {
		d.maxPreferred = slices.Max(p.Preferred)
	}
	return d
}

// Enqueue admits r; see Scheduler. It answers a request that is cancelled already.
func (d *Dynamic) Enqueue(r *infer.Request) error {
	r.WaitIn(d)
	now := infer.Now()
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return status.New(status.Unavailable, "the model version is being unloaded")
	}
	r.Place = infer.Place{Level: d.level(r)}
	policy := &d.queue.levels[r.Place.Level].policy
	if policy.MaxSize > 0 && d.queue.levels[r.Place.Level].size() >= policy.MaxSize {
		d.mu.Unlock()
		return errFull(r)
	}
	r.Times.Queued = now
	if r.Cancelled() {
		d.mu.Unlock()
		r.Fail(errCancelled)
		return nil
	}
	r.Retain()
	if policy.Timeout > 0 {
		d.limit(r, policy.timeout(r))
	}
	d.queue.push(r)
	w := d.called(now)
	d.mu.Unlock()
	if w != nil {
		w.signal()
	}
	return nil
}

func errFull(r *infer.Request) error {
	id := r.ID
	if id == "" {
		id = "<id_unknown>"
	}
	return status.Errorf(status.Unavailable, "[request id: %s] Exceeds maximum queue size", id)
}

// level returns the index of r's priority level.
func (d *Dynamic) level(r *infer.Request) int {
	if d.policy.Levels == 0 {
		return 0
	}
	if r.Priority == 0 || r.Priority > uint64(d.policy.Levels) {
		return d.policy.DefaultLevel - 1
	}
	return int(r.Priority) - 1
}

// called returns the instance to wake after a request came, nil if none needs to. d.mu is held.
func (d *Dynamic) called(now infer.Stamp) *waiter {
	if w := d.leader; w != nil {
		if n, _ := d.due(now); n == 0 {
			return nil
		}
		d.leader = nil
		return w
	}
	return d.popIdle()
}

func (d *Dynamic) popIdle() *waiter {
	if len(d.idle) == 0 {
		return nil
	}
	w := d.idle[len(d.idle)-1]
	d.idle = d.idle[:len(d.idle)-1]
	return w
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close admits no more requests and lets Next return ErrClosed once the queue is empty.
func (d *Dynamic) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.wakeAll()
}

// wakeAll lets every instance that waits look again. d.mu is held.
func (d *Dynamic) wakeAll() {
	for w := d.popIdle(); w != nil; w = d.popIdle() {
		w.signal()
	}
	if d.leader != nil {
		d.leader.signal()
		d.leader = nil
	}
}

// Next returns the next batch; see Batcher.
func (d *Dynamic) Next(ctx context.Context, _ InstanceID, gate Gate) (*infer.Batch, error) {
	passed := gate == nil
	if d.policy.MaxBatchSize > 1 {
		// Let the goroutines that are ready to run go first: those of requests that have arrived join this batch. With
		// 64 clients it made batches 2.5 times as large, at 15 % less CPU a request.
		runtime.Gosched()
	}
	d.mu.Lock()
	for {
		now := infer.Now()
		if at := d.queue.deadline(); at != 0 && at < now { // the timer is late
			if refused := d.takeExpired(now); len(refused) > 0 {
				d.mu.Unlock()
				refuse(refused)
				d.mu.Lock()
				continue
			}
		}
		n, wait := d.due(now)
		if n > 0 {
			if !passed {
				d.mu.Unlock()
				if err := gate(ctx); err != nil {
					return nil, err
				}
				passed = true
				d.mu.Lock()
				continue // look again: others may have been faster, or the batch may have grown
			}
			if b := d.cut(n); b != nil {
				return b, nil // cut let go of the lock
			}
			d.mu.Lock()
			continue // all of them were cancelled
		}
		if d.closed && d.queue.n == 0 {
			if d.timer != nil {
				d.timer.Stop()
			}
			d.mu.Unlock()
			return nil, ErrClosed
		}
		if err := d.sleep(ctx, wait); err != nil {
			d.mu.Unlock()
			return nil, err
		}
	}
}

// sleep waits until the instance is woken, for at most wait if the queue is not empty. d.mu is held before and after,
// not meanwhile.
func (d *Dynamic) sleep(ctx context.Context, wait time.Duration) error {
	w := d.newWaiter()
	leads := d.queue.n > 0 && d.leader == nil
	if leads {
		d.leader = w
	} else {
		d.idle = append(d.idle, w)
	}
	d.mu.Unlock()
	var timeout <-chan time.Time
	if leads {
		if w.timer == nil {
			w.timer = time.NewTimer(wait)
		} else {
			w.timer.Reset(wait)
		}
		timeout = w.timer.C
	}
	var err error
	select {
	case <-w.wake:
	case <-timeout:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if leads {
		w.timer.Stop()
	}
	d.mu.Lock()
	if d.leader == w {
		d.leader = nil
	}
	if i := slices.Index(d.idle, w); i >= 0 {
		d.idle = slices.Delete(d.idle, i, i+1)
	}
	select {
	case <-w.wake: // woken at the last moment
	default:
	}
	if err != nil && d.queue.n > 0 {
		if next := d.popIdle(); next != nil { // the wake-up may have been for work
			next.signal()
		}
	}
	d.spare = append(d.spare, w)
	return err
}

func (d *Dynamic) newWaiter() *waiter {
	if n := len(d.spare); n > 0 {
		w := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}
