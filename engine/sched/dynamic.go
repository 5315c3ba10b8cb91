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

// Dynamic is the default scheduler and the dynamic batcher. Batches are formed in order of priority and arrival.
type Dynamic struct {
	policy       Policy
	maxPreferred int
	compares     bool        // not all requests may share a batch
	order        infer.Order // is empty without PreserveOrdering

	mu        sync.Mutex
	queue     queue // guarded by mu, as is all below
	waiters   waiters
	closed    bool
	instances []instance // by ID
	alarm     alarm      // for the first timeout in the queue
	strategic strategic
}

var (
	_ Batcher     = (*Dynamic)(nil)
	_ Serial      = (*Dynamic)(nil)
	_ Remover     = (*Dynamic)(nil)
	_ infer.Queue = (*Dynamic)(nil)
)

// NewDynamic returns a batcher. The policy comes from a valid configuration.
func NewDynamic(p Policy) *Dynamic {
	d := &Dynamic{policy: p, maxPreferred: p.MaxBatchSize, queue: newQueue(&p)}
	d.compares = p.SameInputs || len(p.Equal) > 0
	d.strategic.strategy = p.Strategy
	d.alarm.f = d.expire
	if len(p.Preferred) > 0 {
		d.maxPreferred = slices.Max(p.Preferred)
	}
	return d
}

// Enqueue admits r; see Scheduler. It answers a request that is already cancelled.
func (d *Dynamic) Enqueue(r *infer.Request) error {
	r.SetQueue(d)
	now := infer.Now()
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errClosed
	}
	r.Place = infer.Place{Level: d.level(r)}
	level := &d.queue.levels[r.Place.Level]
	if level.policy.MaxSize > 0 && level.size() >= level.policy.MaxSize {
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
	deadline := level.policy.deadline(r)
	d.queue.push(r, deadline)
	if d.policy.PreserveOrdering {
		d.order.Add(r)
	}
	if deadline != 0 {
		d.alarm.set(deadline, now)
	}
	w := d.wakeFor(now)
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

// Order returns the order in which responses are delivered, nil if they are delivered at once. A request that is
// answered without the queue may be added to it.
func (d *Dynamic) Order() *infer.Order {
	if !d.policy.PreserveOrdering {
		return nil
	}
	return &d.order
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

// wakeFor returns the instance to wake after a request was added, nil if none. d.mu is held.
func (d *Dynamic) wakeFor(now infer.Stamp) *waiter {
	leader := d.waiters.leader
	if leader == nil {
		return d.popIdle()
	}
	if leader.rows > 0 && d.queue.rows < leader.rows {
		// The leader leaves the queue to other instances. One of these may wait for a batch to become due, and then
		// has no timer.
		if d.policy.CoresBusy != nil || d.policy.MaxQueueDelay == 0 || len(d.waiters.idle) == 0 {
			return nil
		}
		if n, _ := d.due(now); n == 0 {
			return nil
		}
		return d.popIdle()
	}
	if leader.rows == 0 {
		if n, _ := d.due(now); n == 0 {
			return nil
		}
	}
	d.waiters.leader = nil
	return leader
}

// popIdle removes and returns the idle instance that came last, whose memory is most likely cached. It prefers
// instances that are much faster, or have not executed anything yet. nil: none is idle. d.mu is held.
func (d *Dynamic) popIdle() *waiter {
	i := len(d.waiters.idle) - 1
	if i < 0 {
		return nil
	}
	for j, other := range d.waiters.idle[:i] {
		if d.instances[other.inst].estimate(1)*3/2 < d.instances[d.waiters.idle[i].inst].estimate(1) {
			i = j
		}
	}
	return d.waiters.take(i)
}

// wakeIdle wakes an idle instance, if there is one. d.mu is held.
func (d *Dynamic) wakeIdle() {
	if w := d.popIdle(); w != nil {
		w.signal()
	}
}

// Cancelled removes a request from the queue and answers it; see infer.Queue.
func (d *Dynamic) Cancelled(r *infer.Request) {
	d.mu.Lock()
	if r.Place.State == away {
		d.mu.Unlock() // it is executed, or has its response
		return
	}
	d.queue.remove(r)
	d.shrunk()
	d.mu.Unlock()
	fail([]*infer.Request{r}, errCancelled)
}

// Close admits no more requests. Next returns ErrClosed when the queue is empty.
func (d *Dynamic) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.waiters.wakeAll()
}

// Next returns the next batch; see Batcher.
func (d *Dynamic) Next(ctx context.Context, inst InstanceID, gate *Gate) (*infer.Batch, error) {
	passed := gate == nil || gate.Passed
	if d.policy.MaxBatchSize > 1 {
		// Run the goroutines that are ready, so that the requests that they bring join this batch.
		runtime.Gosched()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := infer.Now()
	d.instance(inst).returned(now)
	for ; ; now = infer.Now() {
		if expired := d.takeExpired(now); len(expired) > 0 { // the timer is late
			d.unlocked(func() { fail(expired, errTimeout) })
			continue
		}
		n, wait, rows := d.offer(inst, now)
		switch {
		case n > 0 && wait == 0 && !passed:
			if err := d.pass(ctx, inst, gate); err != nil {
				return nil, err
			}
			passed = true // look again: other instances may have been faster, or the batch may have grown
		case n > 0 && wait == 0:
			b, cancelled := d.cut(inst, n, now)
			if len(cancelled) > 0 {
				d.unlocked(func() { fail(cancelled, errCancelled) })
			}
			if b != nil {
				return b, nil
			}
		case passed && gate != nil: // other instances took the work: the caller must not keep what the gate acquired
			return nil, nil
		case d.closed && d.queue.n == 0:
			d.alarm.stop()
			d.waiters.close()
			return nil, ErrClosed
		default:
			if err := d.wait(ctx, inst, wait, rows); err != nil {
				return nil, err
			}
			if d.instances[inst].last > 1 { // as above: other requests of the same moment join
				d.unlocked(runtime.Gosched)
			}
		}
	}
}

// offer returns how many requests an instance is to take now. If it is none, wait and rows say when to look again: see
// due and hold. d.mu is held.
func (d *Dynamic) offer(inst InstanceID, now infer.Stamp) (n int, wait time.Duration, rows int) {
	if n, wait = d.due(now); n > 0 {
		return d.hold(inst, n, now)
	}
	return 0, wait, 0
}

// unlocked calls f without d.mu, which is held before and after.
func (d *Dynamic) unlocked(f func()) {
	d.mu.Unlock()
	f()
	d.mu.Lock()
}

// More appends further batches for one execution; see Serial.
func (d *Dynamic) More(inst InstanceID, list []*infer.Batch, most int) []*infer.Batch {
	if d.policy.MaxBatchSize > 1 {
		return list
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.instances[inst].series { // as in Next: requests of the same moment join
		d.unlocked(runtime.Gosched)
	}
	active := 0
	for i := range d.instances {
		if d.instances[i].active {
			active++
		}
	}
	share := (d.queue.n + 1) / max(active, 1)
	before := len(list)
	for now := infer.Now(); len(list)-before < min(most, share-1); {
		n, wait := d.due(now)
		if n == 0 || wait > 0 || !mayFollow(list[len(list)-1].Requests[0], d.queue.first()) {
			break
		}
		if active > 1 {
			if n, wait, _ = d.hold(inst, n, now); n == 0 || wait > 0 {
				break
			}
		}
		rows := d.instances[inst].rows
		b, cancelled := d.cut(inst, n, now)
		if len(cancelled) > 0 {
			d.unlocked(func() { fail(cancelled, errCancelled) })
		}
		if b != nil {
			list = append(list, b)
			rows += b.Rows
		}
		d.instances[inst].rows = rows
	}
	d.instances[inst].series = len(list) > before
	return list
}

// mayFollow reports whether the same instance may execute r after another request; see Serial.
func mayFollow(before, r *infer.Request) bool {
	return r.Origin == nil || r.Origin == before.Origin
}

// pass passes the gate. An idle instance may pass its own gate sooner, so pass wakes one before. If the gate returns an
// error, pass wakes another one for the work. d.mu is held before and after, but not while the gate blocks.
func (d *Dynamic) pass(ctx context.Context, inst InstanceID, gate *Gate) (err error) {
	d.wakeIdle()
	d.instances[inst].gated = true
	d.unlocked(func() { err = gate.Pass(ctx) })
	d.instances[inst].gated = false
	if err != nil && d.queue.n > 0 {
		d.wakeIdle()
	}
	return err
}

// wait blocks until the instance is woken or ctx ends. If the queue is not empty and has no leader, the instance
// becomes the leader and waits for at most timeout. d.mu is held before and after, but not while it blocks.
func (d *Dynamic) wait(ctx context.Context, inst InstanceID, timeout time.Duration, rows int) error {
	w := d.waiters.add(inst, rows, d.queue.n > 0)
	leads := d.waiters.leader == w
	var err error
	d.unlocked(func() { err = w.wait(ctx, leads, timeout) })
	d.waiters.remove(w)
	if err != nil && d.queue.n > 0 {
		d.wakeIdle() // w may have been woken for this work
	}
	return err
}
