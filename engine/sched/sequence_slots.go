package sched

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"nereid/engine/infer"
)

// slots are the sequence slots of one instance.
type slots struct {
	inst    InstanceID
	all     []*sequence // by number; nil: free. It grows to the most slots that were used at once
	used    []uint64    // bit i: slot i is taken
	n       int         // of taken slots
	ready   list[sequence]
	running []*sequence // in the batch that the instance executes
	picked  []*sequence // the rows of the batch that cut makes; kept for reuse
	leaving bool        // it gets no new sequences
	down    bool        // nor does it now; see Suspend
	order   infer.Order
	waiter  waiter
}

func (b *slots) signal() { b.waiter.signal() }

// assign gives a sequence the lowest free slot. The caller has checked that there is one.
func (b *slots) assign(q *sequence) {
	i := 0
	for ; i/64 < len(b.used); i += 64 {
		if w := b.used[i/64]; w != ^uint64(0) {
			i += bits.TrailingZeros64(^w)
			break
		}
	}
	if i/64 == len(b.used) {
		b.used = append(b.used, 0)
	}
	if i == len(b.all) {
		b.all = append(b.all, nil)
	}
	b.all[i] = q
	b.used[i/64] |= 1 << (i % 64)
	b.n++
	q.slots, q.slot = b, i
}

// free frees the slot of a sequence.
func (b *slots) free(q *sequence) {
	b.all[q.slot] = nil
	b.used[q.slot/64] &^= 1 << (q.slot % 64)
	b.n--
	q.slots = nil
}

// find returns the slots of an instance, nil if it is not attached. s.mu is held.
func (s *Sequences) find(inst InstanceID) *slots {
	if i := slices.IndexFunc(s.instances, func(b *slots) bool { return b.inst == inst }); i >= 0 {
		return s.instances[i]
	}
	return nil
}

// Attach adds the slots of an instance; see Binder.
func (s *Sequences) Attach(inst InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attach(inst)
}

func (s *Sequences) attach(inst InstanceID) *slots {
	b := s.find(inst)
	if b == nil {
		b = &slots{inst: inst, ready: sequenceList(), waiter: waiter{wake: make(chan struct{}, 1)}}
		s.instances = append(s.instances, b)
		s.assignBacklog(infer.Now())
	}
	return b
}

// Detach gives an instance no more sequences; see Binder.
func (s *Sequences) Detach(inst InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.find(inst); b != nil {
		b.leaving = true
		b.signal()
	}
}

// EndSequences ends the sequences whose state an instance has lost; see Binder.
func (s *Sequences) EndSequences(inst InstanceID, begun bool) {
	s.mu.Lock()
	defer s.unlock()
	b := s.find(inst)
	if b == nil {
		return
	}
	for _, q := range b.all {
		switch {
		case q == nil, begun && q.running != nil && isStart(q.running):
		case q.queue.n > 0 && isStart(q.queue.head): // it has not begun, or begins again
		default:
			s.truncate(q, q.queue.head, errInstanceGone)
		}
	}
}

// Suspend moves or ends the sequences of an instance that cannot execute; see Binder.
func (s *Sequences) Suspend(inst InstanceID) {
	s.mu.Lock()
	defer s.unlock()
	b := s.find(inst)
	if b == nil {
		return
	}
	now := infer.Now()
	b.down = true
	s.returned(b, now)
	for _, q := range b.all {
		if q == nil {
			continue
		}
		for r := q.queue.head; r != nil && !isStart(r); r = q.queue.head {
			q.remove(r)
			s.refuse(r, errInstanceGone)
		}
		s.end(q, now) // what is left in its queue is a sequence that has not begun
	}
}

// Remove ends the sequences of an instance that has ended; see Remover.
func (s *Sequences) Remove(inst InstanceID) {
	s.mu.Lock()
	defer s.unlock()
	if b := s.find(inst); b != nil {
		s.returned(b, infer.Now())
		s.remove(b)
	}
}

// remove removes an instance and ends its sequences, because no other instance has their state. s.mu is held.
func (s *Sequences) remove(b *slots) {
	b.leaving = true
	for _, q := range b.all {
		if q != nil {
			s.fail(q, errInstanceGone)
		}
	}
	s.instances = slices.DeleteFunc(s.instances, func(other *slots) bool { return other == b })
	b.waiter.nudge.close()
	s.failBacklog(errInstanceGone)
}

func (s *Sequences) wakeAll() {
	for _, b := range s.instances {
		b.signal()
	}
}

// returned updates the sequences of an instance that has executed its batch. s.mu is held.
func (s *Sequences) returned(b *slots, now infer.Stamp) {
	for i, q := range b.running {
		b.running[i] = nil
		r, rescheduled := q.running, q.rescheduled
		q.running, q.rescheduled = nil, false
		switch {
		case q.ended:
			q.release()
		case isEnd(r), s.policy.Iterative && !rescheduled:
			s.end(q, now)
		default:
			s.update(q, now)
		}
		r.Release()
	}
	b.running = b.running[:0]
}

// Next returns the next batch for an instance; see Batcher.
func (s *Sequences) Next(ctx context.Context, inst InstanceID, gate *Gate) (*infer.Batch, error) {
	if s.policy.MaxBatchSize > 1 {
		runtime.Gosched() // as in Dynamic.Next: requests that arrive at the same moment join the batch
	}
	passed := gate == nil || gate.Passed
	s.mu.Lock()
	defer s.unlock()
	b := s.attach(inst)
	s.returned(b, infer.Now())
	if b.down {
		b.down = false
		s.assignBacklog(infer.Now())
	}
	for {
		n, wait := s.due(b, infer.Now())
		var err error
		switch {
		case n > 0 && passed:
			return s.cut(b, n), nil
		case n > 0:
			s.unlocked(func() { err = gate.Pass(ctx) })
			passed = err == nil
		case passed && gate != nil: // the work is gone: the caller must not keep what the gate acquired
			return nil, nil
		case s.done(b):
			err = ErrClosed
		default:
			select {
			case <-b.waiter.wake: // a signal for what was found above
			default:
			}
			s.unlocked(func() { err = b.waiter.wait(ctx, wait > 0, wait) })
		}
		if err != nil {
			s.remove(b)
			return nil, err
		}
	}
}

// unlocked calls f without s.mu, which is held before and after.
func (s *Sequences) unlocked(f func()) {
	s.unlock()
	f()
	s.mu.Lock()
}

// done reports whether an instance will get no more requests. s.mu is held.
func (s *Sequences) done(b *slots) bool {
	if b.leaving {
		return b.n == 0
	}
	return s.closed && len(s.live) == 0 // sequences of other instances may have to come here
}

// due returns how many requests an instance is to execute now. If n is 0, wait is the time until more may be due, 0 if
// it has to wait for an event. The rules are Triton's. s.mu is held.
func (s *Sequences) due(b *slots, now infer.Stamp) (n int, wait time.Duration) {
	if b.ready.n == 0 {
		return 0, 0
	}
	age, delay := now.Sub(b.ready.head.since), s.policy.MaxQueueDelay
	late := delay > 0 && age >= delay
	if s.policy.Oldest {
		n = s.dueOldest(b, late)
	} else if late || delay == 0 || s.closed || s.policy.MinimumUtilization == 0 ||
		float64(b.ready.n)/float64(max(s.policy.MaxBatchSize, 1)) >= s.policy.MinimumUtilization {
		n = b.ready.n
	}
	if n == 0 {
		wait = delay - age
	}
	return n, wait
}

// dueOldest is due for the oldest strategy. Its batches may skip requests that are not alike.
func (s *Sequences) dueOldest(b *slots, late bool) (n int) {
	most, best := max(s.policy.MaxBatchSize, 1), 0
	first, unlike := b.ready.head.queue.head, false
	for q := b.ready.head; q != nil && n < most; q = q.links.Next {
		if !s.policy.alike(first, q.queue.head) {
			unlike = true
			continue
		}
		if n++; slices.Contains(s.policy.Preferred, n) {
			best = n
		}
	}
	switch {
	case best > 0 && !late:
		return best
	case late || unlike || n == most || s.policy.MaxQueueDelay == 0 || s.closed:
		return n
	}
	return 0
}

// cut makes the batch of an instance. For the oldest strategy it has n requests, for the direct one those of all ready
// rows. s.mu is held.
func (s *Sequences) cut(b *slots, n int) *infer.Batch {
	if s.policy.Oldest {
		s.pickOldest(b, n)
	} else {
		s.pickRows(b)
	}
	batch := infer.NewBatch()
	batch.Sequenced = true
	batch.Rows = len(b.picked)
	var first *infer.Request
	for _, q := range b.picked {
		var r *infer.Request
		if q == nil {
			batch.Nulls++
		} else if r = s.take(b, q); first == nil {
			first = r
		}
		batch.Requests = append(batch.Requests, r)
	}
	if batch.Nulls > 0 {
		s.fillEmptyRows(batch, first)
	}
	clear(b.picked)
	b.picked = b.picked[:0]
	return batch
}

// pickOldest picks the n oldest requests that are like the first one. s.mu is held.
func (s *Sequences) pickOldest(b *slots, n int) {
	first := b.ready.head.queue.head
	for q := b.ready.head; q != nil && len(b.picked) < n; q = q.links.Next {
		if s.policy.alike(first, q.queue.head) {
			b.picked = append(b.picked, q)
		}
	}
}

// pickRows picks the sequences of all rows whose requests are like the oldest one, and nil for the rows between. So
// requests of every shape are executed at some time. s.mu is held.
func (s *Sequences) pickRows(b *slots) {
	first, rows := b.ready.head.queue.head, 0
	for _, q := range b.all {
		if q == nil || q.in != &b.ready || !s.policy.alike(first, q.queue.head) {
			q = nil
		}
		b.picked = append(b.picked, q)
		if q != nil {
			rows = len(b.picked)
		}
	}
	b.picked = b.picked[:rows]
}

// fillEmptyRows puts null requests into the rows without a request. They have the inputs of first, whose last ones are
// its control inputs.
func (s *Sequences) fillEmptyRows(batch *infer.Batch, first *infer.Request) {
	given := len(first.Inputs) - len(s.policy.Controls)
	noID := correlation(infer.CorrelationID{}, s.correlationType)
	for i, r := range batch.Requests {
		if r == nil {
			null := s.nulls.New(first, given)
			s.addControls(null, noID)
			batch.Requests[i] = null
		}
	}
}

// take removes the next request of a sequence from its queue and adds states and controls. s.mu is held.
func (s *Sequences) take(b *slots, q *sequence) *infer.Request {
	q.moveTo(nil)
	r := q.queue.head
	q.remove(r)
	r.Mark()
	if q.states != nil {
		if isStart(r) {
			q.states.Reset()
		}
		q.states.Feed(r)
	}
	s.addControls(r, q.correlation)
	q.running = r.Retain()
	b.running = append(b.running, q)
	if s.policy.PreserveOrdering && !s.policy.Iterative {
		b.order.Add(r)
	}
	return r
}
