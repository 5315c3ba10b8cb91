package sched

import (
	"slices"
	"time"

	"nereid/engine/infer"
)

// due returns how many requests, from the first on, are to run now; if 0, how long until it is to be asked again. The
// rules are Triton's: the largest preferred size goes at once; a batch that cannot grow, or that would outgrow the
// preferred sizes, goes at once; the rest waits until its oldest request is MaxQueueDelay old. d.mu is held.
func (d *Dynamic) due(now infer.Stamp) (n int, wait time.Duration) {
	if d.queue.n == 0 {
		return 0, 0
	}
	if d.policy.MaxBatchSize <= 1 {
		return 1, 0
	}
	first := d.queue.first()
	rows, best, full, oldest := 0, 0, false, now
	for r := first; r != nil; r = d.queue.after(r) {
		if n > 0 {
			if best == 0 && rows+r.BatchSize > d.maxPreferred {
				best = n
			}
			if rows+r.BatchSize > d.policy.MaxBatchSize || d.compares && !d.policy.alike(first, r) {
				full = true
				break
			}
		}
		if countRows {
			rows += r.BatchSize
		} else {
			rows++
		}
		n++
		oldest = min(oldest, r.Times.Queued)
		if slices.Contains(d.policy.Preferred, rows) {
			best = n
		}
	}
	age, delay := now.Sub(oldest), d.policy.MaxQueueDelay
	switch late := delay > 0 && age >= delay; {
	case best > 0 && !late:
		return best, 0
	case full || late || delay == 0 || d.closed || rows >= d.maxPreferred:
		return n, 0
	}
	return 0, delay - age
}

// cut takes n requests out of the queue and lets go of d.mu. It answers those that are cancelled; nil if all are.
func (d *Dynamic) cut(inst InstanceID, n int, now infer.Stamp) *infer.Batch {
	b := infer.NewBatch()
	var cancelled []*infer.Request
	for range n {
		r := d.queue.first()
		d.queue.remove(r)
		if r.Cancelled() { // a moment ago: Cancelled will not find it any more
			cancelled = append(cancelled, r)
			continue
		}
		b.Requests = append(b.Requests, r)
		b.Rows += r.BatchSize
		if d.policy.PreserveOrdering {
			d.order.Add(r)
		}
	}
	if w := &d.workers[inst]; len(b.Requests) > 0 {
		w.rows, w.since = b.Rows, now
	}
	var next *waiter
	switch {
	case d.queue.n > 0 && d.leader == nil:
		next = d.popIdle()
	case d.queue.n == 0 && d.leader != nil && d.leader.want > 0: // what it held back for is gone
		d.idle = append(d.idle, d.leader)
		d.leader = nil
	}
	d.mu.Unlock()
	if next != nil {
		next.signal()
	}
	for _, r := range cancelled {
		r.Fail(errCancelled)
		r.Release()
	}
	if len(b.Requests) == 0 {
		b.Recycle()
		return nil
	}
	return b
}
