package sched

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"nereid/engine/infer"
)

// seats are the slots of one instance.
type seats struct {
	inst    InstanceID
	slots   []*sequence // by number; nil: free. It grows to what was ever used at once
	used    []uint64    // bit i: slot i is taken
	n       int         // of taken slots
	ready   sequenceList
	running []*sequence // in the batch that the instance has
	picked  []*sequence // of cut
	leaving bool        // it gets no new sequences
	order   infer.Order
	wake    chan struct{} // capacity 1
	timer   *time.Timer
}

func (b *seats) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// free returns the lowest free slot; b.n says that there is one.
func (b *seats) free() int {
	for i, w := range b.used {
		if w != ^uint64(0) {
			if n := i*64 + bits.TrailingZeros64(^w); n < len(b.slots) {
				return n
			}
			break
		}
	}
	n := len(b.slots)
	b.slots = append(b.slots, nil)
	if n/64 == len(b.used) {
		b.used = append(b.used, 0)
	}
	return n
}

// Attach makes the seats of an instance; see Binder.
func (s *Sequences) Attach(inst InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attach(inst)
}

func (s *Sequences) attach(inst InstanceID) *seats {
	for _, b := range s.seats {
		if b.inst == inst {
			return b
		}
	}
	b := &seats{inst: inst, wake: make(chan struct{}, 1)}
	s.seats = append(s.seats, b)
	s.advance(infer.Now())
	return b
}

// Detach gives an instance no more sequences; see Binder.
func (s *Sequences) Detach(inst InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.seats {
		if b.inst == inst {
			b.leaving = true
			b.signal()
		}
	}
}

// Forget ends the sequences that an instance has lost; see Binder.
func (s *Sequences) EndSequences(inst InstanceID, begun bool) {
	var refused []*infer.Request
	s.mu.Lock()
	for _, b := range s.seats {
		if b.inst != inst {
			continue
		}
		for _, q := range b.slots {
			switch {
			case q == nil, begun && q.running != nil && q.running.Flags&infer.SequenceStart != 0:
			case q.queue.n > 0 && q.queue.head.Flags&infer.SequenceStart != 0: // it has not begun, or begins anew
			default:
				s.breakOff(q, q.queue.head, &refused)
			}
		}
	}
	s.mu.Unlock()
	fail(refused, errInstanceGone)
}

// Leave ends the sequences of an instance that is gone; see Remover.
func (s *Sequences) Remove(inst InstanceID) {
	var refused []*infer.Request
	s.mu.Lock()
	for _, b := range s.seats {
		if b.inst == inst {
			s.returned(b, infer.Now(), &refused)
			s.abandon(b, &refused)
			break
		}
	}
	s.mu.Unlock()
	fail(refused, errInstanceGone)
}

// roomiest returns the seats of the instance that has most of them free, so that the instances share the load; nil if all
// slots are taken. s.mu is held.
func (s *Sequences) roomiest() (best *seats) {
	for _, b := range s.seats {
		if !b.leaving && b.n < s.policy.Slots && (best == nil || b.n < best.n) {
			best = b
		}
	}
	return best
}

// advance seats the sequences of the backlog as long as there are free slots. s.mu is held.
func (s *Sequences) advance(now infer.Stamp) {
	for s.backlog.n > 0 {
		b := s.roomiest()
		if b == nil {
			return
		}
		s.sit(s.backlog.head, b, now)
	}
}

// sit gives a sequence the lowest free slot of an instance that has one.
func (s *Sequences) sit(q *sequence, b *seats, now infer.Stamp) {
	q.leave()
	s.expires.forget(q)
	i := b.free()
	b.slots[i] = q
	b.used[i/64] |= 1 << (i % 64)
	b.n++
	q.seats, q.slot = b, i
	if q.queue.n > 0 {
		s.settle(q, now)
	}
}

// settle makes a seated sequence that does not run ready or idle, or ends it. s.mu is held.
func (s *Sequences) settle(q *sequence, now infer.Stamp) {
	q.leave()
	switch {
	case q.queue.n > 0:
		q.since = now
		q.seats.ready.push(q)
		q.seats.signal()
	case q.last || s.finish:
		s.end(q, now, nil)
	default:
		s.rest(q, now)
	}
}

// end takes a sequence out, whose last request has run or will not. If its queue has the next sequence of the same ID, that
// one goes behind the backlog; requests that do not start one are refused. s.mu is held.
func (s *Sequences) end(q *sequence, now infer.Stamp, refused *[]*infer.Request) {
	for refused != nil && q.queue.n > 0 && q.queue.head.Flags&infer.SequenceStart == 0 {
		*refused = append(*refused, q.queue.pop())
	}
	q.leave()
	s.expires.forget(q)
	b := q.seats
	if b != nil {
		b.slots[q.slot] = nil
		b.used[q.slot/64] &^= 1 << (q.slot % 64)
		if freeSlots {
			b.n--
		}
	}
	q.seats = nil
	if q.queue.n > 0 {
		q.last = false
		s.queueUp(q, now)
	} else {
		delete(s.live, q.id)
		if q.running != nil {
			q.dropped = true
		} else if q.states != nil && s.mixed == nil {
			q.states.Release()
		}
	}
	s.advance(now)
	if b != nil && b.leaving && b.n == 0 {
		b.signal()
	}
	if s.closed && len(s.live) == 0 {
		s.wakeAll()
	}
	if len(s.live) == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

func (s *Sequences) wakeAll() {
	for _, b := range s.seats {
		b.signal()
	}
}

// returned takes note that an instance is done with its batch. s.mu is held.
func (s *Sequences) returned(b *seats, now infer.Stamp, refused *[]*infer.Request) {
	for i, q := range b.running {
		b.running[i] = nil
		r, again := q.running, q.again
		q.running, q.again = nil, false
		switch {
		case q.dropped:
			if q.states != nil && s.mixed == nil {
				q.states.Release()
			}
		case s.policy.Iterative && !again:
			s.end(q, now, refused)
		case r.Flags&infer.SequenceEnd != 0:
			s.end(q, now, refused)
		default:
			s.settle(q, now)
		}
		r.Release()
	}
	b.running = b.running[:0]
}

// Next returns the next batch for an instance; see Batcher.
func (s *Sequences) Next(ctx context.Context, inst InstanceID, gate Gate) (*infer.Batch, error) {
	if s.policy.MaxBatchSize > 1 {
		runtime.Gosched() // as in Dynamic.Next: those that have arrived join this batch
	}
	var refused []*infer.Request
	passed := gate == nil
	s.mu.Lock()
	b := s.attach(inst)
	s.returned(b, infer.Now(), &refused)
	for {
		if len(refused) > 0 {
			s.mu.Unlock()
			for _, r := range refused {
				fail([]*infer.Request{r}, errNoStart(r))
			}
			refused = nil
			s.mu.Lock()
		}
		n, wait := s.due(b, infer.Now())
		var err error
		switch {
		case n > 0 && passed:
			batch := s.cut(b, n)
			s.mu.Unlock()
			return batch, nil
		case n > 0:
			s.mu.Unlock()
			err = gate(ctx)
			passed = err == nil
			s.mu.Lock()
		case passed && gate != nil: // what was due is gone, and leave to run is not for waiting
			s.mu.Unlock()
			return nil, nil
		case passed && gate != nil: // the work is gone, and leave to run is not for waiting
			s.mu.Unlock()
			return nil, nil
		case s.over(b):
			err = ErrClosed
		default:
			err = s.sleep(ctx, b, wait)
		}
		if err != nil {
			s.abandon(b, &refused)
			s.mu.Unlock()
			fail(refused, errInstanceGone)
			return nil, err
		}
	}
}

// over reports whether nothing will come for an instance any more. s.mu is held.
func (s *Sequences) over(b *seats) bool {
	if b.leaving {
		return b.n == 0
	}
	return s.closed && (len(s.live) == 0 || !runFirst) // what waits elsewhere may have to come here
}

// sleep waits until the instance is woken, for at most wait if that is not 0. s.mu is held before and after, not meanwhile.
func (s *Sequences) sleep(ctx context.Context, b *seats, wait time.Duration) error {
	select {
	case <-b.wake: // for what has been seen
	default:
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	var timeout <-chan time.Time
	if wait > 0 {
		if b.timer == nil {
			b.timer = time.NewTimer(wait)
		} else {
			b.timer.Reset(wait)
		}
		defer b.timer.Stop()
		timeout = b.timer.C
	}
	select {
	case <-b.wake:
	case <-timeout:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// abandon takes the seats of an instance away, with the sequences on them: they cannot go on elsewhere. s.mu is held.
func (s *Sequences) abandon(b *seats, refused *[]*infer.Request) {
	b.leaving = true
	now := infer.Now()
	for _, q := range b.slots {
		if q == nil {
			continue
		}
		q.giveUp(refused)
		s.end(q, now, nil)
	}
	if i := slices.Index(s.seats, b); i >= 0 {
		s.seats = slices.Delete(s.seats, i, i+1)
	}
	s.strand(refused)
}
