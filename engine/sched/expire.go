package sched

import (
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

var (
	errCancelled = status.New(status.Cancelled, "request was cancelled")
	errTimeout   = status.New(status.Unavailable, "Request timeout expired")
)

// Cancelled takes a request out of the queue and answers it; see infer.Queue.
func (d *Dynamic) Cancelled(r *infer.Request) {
	d.mu.Lock()
	if r.Place.State == away || !leaveAtOnce {
		d.mu.Unlock() // it runs, or has been answered
		return
	}
	d.queue.remove(r)
	w := d.shrunk()
	d.mu.Unlock()
	if w != nil {
		w.signal()
	}
	r.Fail(errCancelled)
	r.Release()
}

// shrunk returns who is to look again after requests went or changed their order: the rest may be due now, or
// nothing is left to wait for. d.mu is held.
func (d *Dynamic) shrunk() *waiter {
	if d.closed && d.queue.n == 0 {
		d.wakeAll()
		return nil
	}
	w := d.leader
	if w == nil {
		return nil
	}
	if n, _ := d.due(infer.Now()); n == 0 && d.queue.n > 0 {
		return nil
	}
	d.leader = nil
	return w
}

// endless is a timeout that no process lives to see; to add a longer one to a stamp could wrap.
const endless = 100 * 365 * 24 * time.Hour

// limit sets when r's wait is too long and sees to it that somebody looks then. d.mu is held.
func (d *Dynamic) limit(r *infer.Request, timeout time.Duration) {
	if timeout > endless {
		return
	}
	r.Place.Deadline = r.Times.Queued + infer.Stamp(timeout)
	if d.alarm == 0 || r.Place.Deadline < d.alarm {
		d.setAlarm(r.Place.Deadline, r.Times.Queued)
	}
}

// setAlarm has expire called just after a moment. d.mu is held.
func (d *Dynamic) setAlarm(at, now infer.Stamp) {
	d.alarm = at
	wait := at.Sub(now) + 1
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.expire)
	} else {
		d.timer.Reset(wait)
	}
}

// expire applies the policies to the requests whose timeout has expired. It is the timer's function: clients are told
// on time, also while all instances are busy.
func (d *Dynamic) expire() {
	d.mu.Lock()
	d.alarm = 0
	refused := d.takeExpired(infer.Now())
	w := d.shrunk()
	d.mu.Unlock()
	if w != nil {
		w.signal()
	}
	refuse(refused)
}

// takeExpired delays requests whose timeout has expired, or takes them out and returns them; the caller refuses them
// once it has let go of d.mu.
func (d *Dynamic) takeExpired(now infer.Stamp) (refused []*infer.Request) {
	for {
		at := d.queue.deadline()
		if at == 0 {
			return refused
		}
		if at >= now || !tellExpiry {
			if d.alarm == 0 || at < d.alarm {
				d.setAlarm(at, now)
			}
			return refused
		}
		r := d.queue.deadlines[0]
		if d.queue.levels[r.Place.Level].policy.Delay {
			d.queue.delay(r)
			continue
		}
		d.queue.remove(r)
		refused = append(refused, r)
	}
}

func refuse(all []*infer.Request) {
	for _, r := range all {
		r.Fail(errTimeout)
		r.Release()
	}
}
