package sched

import (
	"slices"
	"time"

	"nereid/engine/infer"
)

// due returns how many requests are to run on an instance now; if 0, how long until it is to be asked again, 0 for until
// something happens. The rules are Triton's. s.mu is held.
func (s *Sequences) due(b *seats, now infer.Stamp) (n int, wait time.Duration) {
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

// dueOldest is due for the oldest strategy, where requests can join that are not beside each other in the queue.
func (s *Sequences) dueOldest(b *seats, late bool) (n int) {
	most, best := max(s.policy.MaxBatchSize, 1), 0
	first, unlike := b.ready.head.queue.head, false
	for q := b.ready.head; q != nil && n < most; q = q.next {
		if !s.compat.alike(first, q.queue.head) {
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

// cut makes the batch of an instance: n requests of the oldest strategy, those of all ready rows of the direct one. s.mu is
// held.
func (s *Sequences) cut(b *seats, n int) *infer.Batch {
	if s.policy.Oldest {
		s.pickOldest(b, n)
	} else {
		s.pickRows(b)
	}
	batch := infer.NewBatch()
	batch.Sequenced = true
	var first *infer.Request
	for _, q := range b.picked {
		if q == nil {
			batch.Requests = append(batch.Requests, nil)
			continue
		}
		r := s.take(b, q, batch)
		if first == nil {
			first = r
		}
	}
	s.stuff(batch, first)
	clear(b.picked)
	b.picked = b.picked[:0]
	return batch
}

// pickOldest picks the n oldest requests that are like the first one. s.mu is held.
func (s *Sequences) pickOldest(b *seats, n int) {
	first := b.ready.head.queue.head
	for q := b.ready.head; q != nil && len(b.picked) < n; q = q.next {
		if s.compat.alike(first, q.queue.head) {
			b.picked = append(b.picked, q)
		}
	}
}

// pickRows picks the sequences of all rows whose requests are like the first one, nil for the rows between. s.mu is held.
func (s *Sequences) pickRows(b *seats) {
	// The one that waits longest says what the others must be like, so that no shape waits for ever.
	first, rows := b.ready.head.queue.head, 0
	for _, q := range b.slots {
		if q == nil || q.in != &b.ready || !s.compat.alike(first, q.queue.head) {
			q = nil
		}
		b.picked = append(b.picked, q)
		if q != nil {
			rows = len(b.picked)
		}
	}
	b.picked = b.picked[:rows]
}

// stuff puts stand-ins into the rows without a request. The first request has its controls last.
func (s *Sequences) stuff(batch *infer.Batch, first *infer.Request) {
	given := len(first.Inputs) - len(s.policy.Controls)
	for i, r := range batch.Requests {
		if r != nil {
			continue
		}
		null := s.nulls.New(first, given)
		s.control(null, s.nobody())
		batch.Requests[i] = null
		batch.Rows++
		batch.Nulls++
	}
}

// nobody is the correlation ID of an empty slot.
func (s *Sequences) nobody() []byte {
	for i := range s.policy.Controls {
		if c := &s.policy.Controls[i]; c.Kind == ControlCorrelationID {
			return correlation(infer.CorrelationID{}, c.DataType)
		}
	}
	return nil
}

// take moves the next request of a sequence into the batch, with what the model is to be told. s.mu is held.
func (s *Sequences) take(b *seats, q *sequence, batch *infer.Batch) *infer.Request {
	q.leave()
	r := q.queue.pop()
	r.Mark()
	if q.states != nil {
		if r.Flags&infer.SequenceStart != 0 && startAnew {
			q.states.Reset()
		}
		q.states.Feed(r)
	}
	s.control(r, q.corrid)
	q.running = r.Retain()
	b.running = append(b.running, q)
	if s.policy.PreserveOrdering && !s.policy.Iterative {
		b.order.Add(r)
	}
	batch.Requests = append(batch.Requests, r)
	batch.Rows++
	return r
}
