package sched

import (
	"slices"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

var errTimeout = status.New(status.Unavailable, "Request timeout expired")

// due returns how many requests of the queue, from its head, are to be executed now. If n is 0, wait is the time until
// more may be due. The rules are Triton's: the largest preferred size is executed at once. So is a batch that cannot
// grow, or that would exceed the preferred sizes. Other batches wait until their oldest request is MaxQueueDelay old.
// d.mu is held.
func (d *Dynamic) due(now infer.Stamp) (n int, wait time.Duration) {
	if d.queue.n == 0 {
		return 0, 0
	}
	if d.policy.MaxBatchSize <= 1 {
		return 1, 0
	}
	first, most := d.queue.first(), d.most()
	rows, best, full, oldest := 0, 0, false, now
	for r := first; r != nil; r = d.queue.after(r) {
		if n > 0 {
			if best == 0 && rows+r.BatchSize > d.maxPreferred {
				best = n
			}
			if n == most || !d.fits(first, r, rows) {
				full = true
				break
			}
		}
		rows += r.BatchSize
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

// cut removes n requests from the queue and returns those that are not cancelled as a batch, nil if all are. The caller
// answers the cancelled ones. d.mu is held.
func (d *Dynamic) cut(inst InstanceID, n int, now infer.Stamp) (b *infer.Batch, cancelled []*infer.Request) {
	b = infer.NewBatch()
	for range n {
		r := d.queue.first()
		d.queue.remove(r)
		if r.Cancelled() { // just now: Cancelled will not find it in the queue
			cancelled = append(cancelled, r)
			continue
		}
		b.Requests = append(b.Requests, r)
		b.Rows += r.BatchSize
	}
	d.strategic.formed()
	switch ws := &d.waiters; {
	case d.queue.n > 0 && (ws.leader == nil || ws.leader.rows > 0 && d.policy.CoresBusy == nil):
		d.wakeIdle() // it executes the rest, or waits until that is due
	case d.queue.n == 0 && ws.leader != nil && ws.leader.rows > 0: // the work that it left to others is gone
		ws.idle = append(ws.idle, ws.leader)
		ws.leader = nil
	}
	if len(b.Requests) == 0 {
		b.Recycle()
		return nil, cancelled
	}
	i := &d.instances[inst]
	i.rows, i.since = b.Rows, now
	return b, cancelled
}

// shrunk wakes instances after requests left the queue or changed their order: the others may be due now, or the queue
// may be empty. d.mu is held.
func (d *Dynamic) shrunk() {
	if d.closed && d.queue.n == 0 {
		d.waiters.wakeAll()
		return
	}
	if n, _ := d.due(infer.Now()); n > 0 || d.queue.n == 0 {
		d.waiters.wakeLeader()
	}
}

// expire applies the policies to requests whose timeout has expired. The alarm calls it, so that clients are answered
// in time even if all instances are busy.
func (d *Dynamic) expire() {
	d.mu.Lock()
	d.alarm.at = 0
	expired := d.takeExpired(infer.Now())
	d.shrunk()
	d.mu.Unlock()
	fail(expired, errTimeout)
}

// takeExpired delays requests whose timeout has expired, or removes and returns them. d.mu is held.
func (d *Dynamic) takeExpired(now infer.Stamp) (expired []*infer.Request) {
	for {
		r, at := d.queue.deadlines.first()
		if r == nil {
			return expired
		}
		if at >= now {
			d.alarm.set(at, now)
			return expired
		}
		if d.queue.levels[r.Place.Level].policy.Delay {
			d.queue.delay(r)
			continue
		}
		d.queue.remove(r)
		expired = append(expired, r)
	}
}
