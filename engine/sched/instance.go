package sched

import (
	"math/bits"
	"time"

	"nereid/engine/infer"
)

// sizeClasses is the number of size classes of batches. Class i counts more than 2^(i-1) and at most 2^i rows.
const sizeClasses = 16

// instance is what the scheduler knows of an instance. It measures executions from the return of Next to its next call.
type instance struct {
	active bool                       // it has called Next and has not been removed
	gated  bool                       // it waits in its gate, for an unknown time
	series bool                       // More returned a batch
	rows   int                        // of the batch that it executes; 0: none
	since  infer.Stamp                // when it took that batch
	last   int                        // rows of the batch before
	perRow [sizeClasses]time.Duration // mean execution time per row by size class; 0: unknown
}

func sizeClass(rows int) int { return min(bits.Len(uint(max(rows, 1)-1)), sizeClasses-1) }

// instance returns the measurements of an instance. d.mu is held.
func (d *Dynamic) instance(id InstanceID) *instance {
	for int(id) >= len(d.instances) {
		d.instances = append(d.instances, instance{})
	}
	in := &d.instances[id]
	in.active = true
	return in
}

// Remove removes the measurements of an instance; see Remover.
func (d *Dynamic) Remove(id InstanceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if int(id) < len(d.instances) {
		d.instances[id] = instance{}
	}
	if d.queue.n > 0 { // another instance may have left the queue to this one
		d.waiters.wakeAll()
	}
}

// returned notes that the instance has executed its batch.
func (in *instance) returned(now infer.Stamp) {
	if in.rows == 0 {
		return
	}
	took, mean := max(now.Sub(in.since)/time.Duration(in.rows), 1), &in.perRow[sizeClass(in.rows)]
	switch {
	case *mean == 0:
		*mean = took
	case took > 4**mean: // an outlier, for example because the thread was not scheduled
		*mean += *mean / 8
	default:
		*mean += (took - *mean) / 8
	}
	in.last, in.rows = in.rows, 0
}

// estimate returns the expected execution time of a batch, 0 if nothing is known.
func (in *instance) estimate(rows int) time.Duration {
	c := sizeClass(rows)
	for i := c; i >= 0; i-- { // a row takes at most as long as in a smaller batch
		if in.perRow[i] > 0 {
			return in.perRow[i] * time.Duration(rows)
		}
	}
	for i := c + 1; i < sizeClasses; i++ { // a batch takes at most as long as a larger one
		if in.perRow[i] > 0 {
			return in.perRow[i] << i
		}
	}
	return 0
}

// remaining returns the expected time until the instance has executed its batch.
func (in *instance) remaining(now infer.Stamp) time.Duration {
	if in.rows == 0 {
		return 0
	}
	return max(in.estimate(in.rows)-now.Sub(in.since), 0)
}

// efficientSize returns the smallest batch size, a power of two, whose time per row is at most a quarter above the
// best.
func (in *instance) efficientSize() int {
	best := time.Duration(0)
	for _, t := range in.perRow {
		if t > 0 && (best == 0 || t < best) {
			best = t
		}
	}
	for i, t := range in.perRow {
		if t > 0 && t <= best+best/4 {
			return 1 << i
		}
	}
	return 1
}

// hold decides whether an instance takes requests or leaves them to other instances. n requests are due. It returns
// how many of them the instance takes now. If wait is not 0, it takes none: it looks again after wait, or when the
// queue has so many rows. d.mu is held.
//
// An instance holds in two cases. While another instance computes on the same cores, small batches are inefficient, so
// it waits for a larger one. And it takes no requests that faster instances would have executed sooner. A single
// instance never holds.
func (d *Dynamic) hold(id InstanceID, n int, now infer.Stamp) (take int, wait time.Duration, rows int) {
	if len(d.instances) == 1 || d.closed {
		return n, 0, 0
	}
	in := &d.instances[id]
	if d.policy.CoresBusy == nil {
		return d.holdForFaster(in, n, now)
	}
	if wait, rows = d.holdForCores(in, now); wait > 0 {
		return 0, wait, rows
	}
	return n, 0, 0
}

// holdForCores is hold for instances on the same cores.
func (d *Dynamic) holdForCores(in *instance, now infer.Stamp) (wait time.Duration, rows int) {
	rows = min(in.efficientSize(), d.policy.MaxBatchSize)
	if d.queue.rows >= rows || !d.policy.CoresBusy() {
		return 0, 0
	}
	for i := range d.instances {
		other := &d.instances[i]
		if other == in || other.rows == 0 || now.Sub(other.since) > 2*other.estimate(other.rows) {
			continue // it is idle, or so late that it may be stuck
		}
		if left := max(other.remaining(now), minHold); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait, rows
}

// holdForFaster is hold for an instance while others are available that are more than 1.5 times as fast. It takes only
// what it can execute before these would have executed the whole queue. With a delay it takes all or nothing: the rest
// of a batch would wait for the delay again.
func (d *Dynamic) holdForFaster(in *instance, n int, now infer.Stamp) (take int, wait time.Duration, rows int) {
	most, whole := max(d.policy.MaxBatchSize, 1), d.policy.MaxQueueDelay > 0
	own := in.estimate(most)
	speed, ahead := 0.0, 0.0 // of the faster instances together: rows per nanosecond, and rows that they still execute
	soonest := time.Duration(0)
	for i := range d.instances {
		other := &d.instances[i]
		t := other.estimate(most)
		if other == in || !other.active || other.gated || t == 0 || own > 0 && t*3/2 >= own {
			continue // it is not faster, or not available
		}
		if other.rows > 0 && now.Sub(other.since) > 4*t {
			continue // it may be stuck
		}
		if own == 0 && other.estimate(1) > 0 { // nothing is known of this instance: measure it
			if whole {
				return n, 0, 0
			}
			return 1, 0, 0
		}
		left := other.remaining(now)
		speed += float64(most) / float64(t)
		ahead += float64(left) * float64(most) / float64(t)
		if left += other.estimate(min(d.queue.rows, most)); soonest == 0 || left < soonest {
			soonest = left
		}
	}
	if speed == 0 {
		return n, 0, 0
	}
	done := max(time.Duration((float64(d.queue.rows)+ahead)/speed), soonest)
	sum := 0
	for r := d.queue.first(); take < n; r = d.queue.after(r) {
		if sum += r.BatchSize; in.estimate(sum) > done {
			break
		}
		take++
	}
	if take == n || take > 0 && !whole {
		return take, 0, 0
	}
	for i, idle := range d.waiters.idle { // the leader alone watches MaxQueueDelay, and this instance may have been it
		if t := d.instances[idle.inst].estimate(most); t > 0 && t*3/2 < own {
			d.waiters.take(i).signal()
			break
		}
	}
	return 0, max(done, minHold), max(int(float64(in.estimate(1))*speed-ahead), d.queue.rows+1)
}
