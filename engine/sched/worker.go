package sched

import (
	"math/bits"
	"slices"
	"time"

	"nereid/engine/infer"
)

const (
	// classes are the size classes of a batch: class i counts more than 2^(i-1) and at most 2^i rows.
	classes = 16
	// minHold is the shortest wait for another instance, which may be late.
	minHold = 50 * time.Microsecond
)

// worker is what the scheduler has measured of an instance: from the batch that Next returned to its next call.
type worker struct {
	here  bool                   // it has called Next and has not left
	gated bool                   // it waits for leave to run, nobody knows how long
	rows  int                    // of the batch that it runs; 0: none
	since infer.Stamp            // when it took that batch
	last  int                    // rows of the batch before
	again bool                   // More gave it something
	each  [classes]time.Duration // mean time for a row in batches of a size class; 0: not known
}

func class(rows int) int { return min(bits.Len(uint(max(rows, 1)-1)), classes-1) }

// free notes that the instance is back.
func (w *worker) free(now infer.Stamp) {
	if w.rows == 0 {
		return
	}
	each, mean := max(now.Sub(w.since)/time.Duration(w.rows), 1), &w.each[class(w.rows)]
	switch {
	case *mean == 0:
		*mean = each
	case each > 4**mean: // it was kept from the cores; once is no measure
		*mean += *mean / 8
	default:
		*mean += (each - *mean) / 8
	}
	w.last, w.rows = w.rows, 0
}

// takes returns how long the instance is likely to run a batch, 0 if nothing is known.
func (w *worker) takes(rows int) time.Duration {
	c := class(rows)
	for i := c; i >= 0; i-- { // a row costs at most what it costs in a smaller batch
		if w.each[i] > 0 {
			return w.each[i] * time.Duration(rows)
		}
	}
	for i := c + 1; i < classes; i++ { // a batch costs at most what a larger one costs
		if w.each[i] > 0 {
			return w.each[i] << i
		}
	}
	return 0
}

// left returns how long the instance is likely to run still.
func (w *worker) left(now infer.Stamp) time.Duration {
	if w.rows == 0 {
		return 0
	}
	return max(w.takes(w.rows)-now.Sub(w.since), 0)
}

// enough returns the smallest batch, a power of two, whose rows cost at most a quarter more than those of the best.
func (w *worker) enough() int {
	best := time.Duration(0)
	for _, each := range w.each {
		if each > 0 && (best == 0 || each < best) {
			best = each
		}
	}
	for i, each := range w.each {
		if each > 0 && each <= best+best/4 {
			return 1 << i
		}
	}
	return 1
}

// worker returns what is known of an instance. d.mu is held.
func (d *Dynamic) worker(id InstanceID) *worker {
	for int(id) >= len(d.workers) {
		d.workers = append(d.workers, worker{})
	}
	w := &d.workers[id]
	w.here = true
	return w
}

// Leave forgets an instance; see Remover.
func (d *Dynamic) Remove(id InstanceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if int(id) < len(d.workers) {
		d.workers[id] = worker{}
	}
	if d.queue.n > 0 { // another may have left this work to it
		d.wakeAll()
	}
}

// hold says whether an instance is to leave n requests, which are due, to the queue for a while: for how long, and
// how many rows end the wait. Else it returns how many of the requests the instance is to take. d.mu is held.
//
// Two cases, and none with one instance or a lone client. While another instance runs on the same cores, small batches
// take from both what neither has: on two busy cores two greedy instances spent a fifth to a third more CPU a request
// than with this rule. And an instance takes nothing that faster ones would have done sooner.
func (d *Dynamic) hold(id InstanceID, n int, now infer.Stamp) (take int, wait time.Duration, want int) {
	if !leaveWork || len(d.workers) == 1 || d.closed {
		return n, 0, 0
	}
	w := &d.workers[id]
	if d.policy.CoresBusy == nil {
		return d.holdSlow(w, n, now)
	}
	if wait, want = d.holdShared(w, d.queue.rows, now); wait > 0 {
		return 0, wait, want
	}
	return n, 0, 0
}

// holdShared is the case of instances on the same cores.
func (d *Dynamic) holdShared(w *worker, rows int, now infer.Stamp) (wait time.Duration, want int) {
	want = min(w.enough(), d.policy.MaxBatchSize)
	if rows >= want || !d.policy.CoresBusy() {
		return 0, 0
	}
	for i := range d.workers {
		other := &d.workers[i]
		if other == w || other.rows == 0 {
			continue
		}
		// One that is far too late may be stuck: it is not waited for.
		if now.Sub(other.since) > 2*other.takes(other.rows) {
			continue
		}
		if left := max(other.left(now), minHold); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait, want
}

// holdSlow is the case of instances that others outrun by more than half. Such a one takes only what it has done by
// the time at which the faster ones would be through with all that waits.
func (d *Dynamic) holdSlow(w *worker, n int, now infer.Stamp) (take int, wait time.Duration, want int) {
	most := max(d.policy.MaxBatchSize, 1)
	mine := w.takes(most)
	speed, ahead, soonest := 0.0, 0.0, time.Duration(0) // rows per nanosecond; rows that the faster ones still have in hand
	for i := range d.workers {
		other := &d.workers[i]
		t := other.takes(most)
		if other == w || !other.here || other.gated || t == 0 || mine > 0 && t*3/2 >= mine || now.Sub(other.since) > 4*t && other.rows > 0 {
			continue // not faster, or it may be stuck
		}
		if mine == 0 && other.takes(1) > 0 { // nothing is known of this one: it is tried with little
			return 1, 0, 0
		}
		left := other.left(now)
		speed += float64(most) / float64(t)
		ahead += float64(left) * float64(most) / float64(t)
		if left += other.takes(min(d.queue.rows, most)); soonest == 0 || left < soonest {
			soonest = left
		}
	}
	if speed == 0 {
		return n, 0, 0
	}
	done := max(time.Duration((float64(d.queue.rows)+ahead)/speed), soonest)
	rows := 0
	for r := d.queue.first(); take < n; r = d.queue.after(r) {
		if rows += r.BatchSize; w.takes(rows) > done {
			break
		}
		take++
	}
	if take > 0 {
		return take, 0, 0
	}
	for i, idle := range d.idle { // the delay may have been this instance's to wait for
		if t := d.workers[idle.inst].takes(most); t > 0 && t*3/2 < mine {
			d.idle = slices.Delete(d.idle, i, i+1)
			idle.signal()
			break
		}
	}
	return 0, max(done, minHold), max(int(float64(w.takes(1))*speed-ahead), d.queue.rows+1)
}
