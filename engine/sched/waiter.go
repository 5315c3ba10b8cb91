package sched

import (
	"context"
	"slices"
	"time"
)

// waiter is an instance that waits inside Next.
type waiter struct {
	wake  chan struct{} // capacity 1
	timer *time.Timer
	nudge nudge
	inst  InstanceID
	rows  int // the leader checks the queue again when it has so many rows; 0: when a batch is due
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wait blocks until signal, ctx's end or, with a timer, the timeout.
func (w *waiter) wait(ctx context.Context, timed bool, timeout time.Duration) error {
	var expired <-chan time.Time
	if timed {
		if w.timer == nil {
			w.timer = time.NewTimer(timeout)
		} else {
			w.timer.Reset(timeout)
		}
		w.nudge.after(timeout)
		defer w.timer.Stop()
		expired = w.timer.C
	}
	select {
	case <-w.wake:
	case <-expired:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// waiters are the waiting instances of a Dynamic, whose lock guards them.
type waiters struct {
	idle   []*waiter // those that wait for any work
	leader *waiter   // the one that waits for the queue's head to become due, nil if there is none
	spare  []*waiter // for reuse
}

// add adds an instance: as the leader if mayLead is true and there is no leader, else as idle. An instance that waits
// for a batch to become due replaces a leader that leaves the queue to others, and so may wake too late. That one keeps
// its timer.
func (ws *waiters) add(inst InstanceID, rows int, mayLead bool) *waiter {
	var w *waiter
	if n := len(ws.spare); n > 0 {
		w, ws.spare = ws.spare[n-1], ws.spare[:n-1]
	} else {
		w = &waiter{wake: make(chan struct{}, 1)}
	}
	w.inst, w.rows = inst, rows
	if mayLead && rows == 0 && ws.leader != nil && ws.leader.rows > 0 {
		ws.idle = append(ws.idle, ws.leader)
		ws.leader = nil
	}
	if mayLead && ws.leader == nil {
		ws.leader = w
	} else {
		ws.idle = append(ws.idle, w)
	}
	return w
}

// remove removes a waiter that waits no longer.
func (ws *waiters) remove(w *waiter) {
	if ws.leader == w {
		ws.leader = nil
	}
	if i := slices.Index(ws.idle, w); i >= 0 {
		ws.idle = slices.Delete(ws.idle, i, i+1)
	}
	select {
	case <-w.wake: // a signal at the last moment
	default:
	}
	ws.spare = append(ws.spare, w)
}

// close frees the kernel's timers of the waiters that wait no longer.
func (ws *waiters) close() {
	for _, w := range ws.spare {
		w.nudge.close()
	}
}

// take removes and returns the idle instance at an index.
func (ws *waiters) take(i int) *waiter {
	w := ws.idle[i]
	ws.idle = slices.Delete(ws.idle, i, i+1)
	return w
}

// wakeLeader wakes the leader, if there is one.
func (ws *waiters) wakeLeader() {
	if ws.leader != nil {
		ws.leader.signal()
		ws.leader = nil
	}
}

// wakeAll wakes all instances.
func (ws *waiters) wakeAll() {
	for _, w := range ws.idle {
		w.signal()
	}
	ws.idle = ws.idle[:0]
	ws.wakeLeader()
}
