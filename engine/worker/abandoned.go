package worker

import (
	"cmp"
	"log/slog"
	"slices"
	"time"
)

// A process may ignore the cancellation of its requests, for example in C code or in an endless loop. This file kills
// such a process: no client waits for its work, but other requests wait for the instance. It also kills a process whose
// model has left service and which does not end its work, although clients wait.

// watch kills a process whose work is abandoned, or goes on for too long after its model has left service.
type watch struct {
	w     *Worker
	timer *time.Timer // guarded by the worker's mu, as are the next
	// abandoned says that the work was abandoned when the timer was set. ticket is the worker's lastTicket of then.
	abandoned bool
	ticket    uint64
	leaving   bool        // see Supervisor.Leave
	unload    *time.Timer // ends at process.Limits.Unload
	overdue   bool        // the process was killed because of that limit
}

func newWatch(w *Worker) watch {
	x := watch{w: w, timer: time.AfterFunc(time.Hour, func() { w.watch.check() }),
		unload: time.AfterFunc(time.Hour, func() { w.watch.expire() })}
	x.stop()
	return x
}

// stop stops the timers. The worker's mu is held once the worker runs.
func (x *watch) stop() {
	x.timer.Stop()
	x.unload.Stop()
}

// cancelled sets the timer if the execution under way is abandoned now.
func (x *watch) cancelled() {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if !x.w.closed && x.isAbandoned() {
		x.set()
	}
}

// leave shortens the time after which an abandoned execution is stopped. From then on, requests of a decoupled model
// whose execution is over count too.
func (x *watch) leave() {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if x.leaving = true; !x.w.closed {
		x.set()
	}
}

// leaveBy is leave, and bounds all work: the model has left service at a time.
func (x *watch) leaveBy(left time.Time) {
	x.leave()
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if !x.w.closed {
		x.unload.Reset(time.Until(left.Add(x.unloadLimit())))
	}
}

func (x *watch) unloadLimit() time.Duration { return cmp.Or(x.w.spec.Limits.Unload, unloadTimeout) }

// expire is called by the timer of the unload. It kills the process if it works.
func (x *watch) expire() {
	w := x.w
	w.mu.Lock()
	works := !w.closed && (w.current != nil || len(w.late) > 0)
	if x.overdue = works; !works && !w.closed {
		x.unload.Reset(leaveGrace) // an execution may be about to begin
	}
	w.mu.Unlock()
	if works {
		w.log.Warn("a model that has left service goes on with a request for too long; its process is killed",
			"pid", w.PID(), "unload-timeout-seconds", x.unloadLimit().Seconds())
		w.stop()
	}
}

// set sets the timer. The worker's mu is held.
func (x *watch) set() {
	x.abandoned, x.ticket = x.isAbandoned(), x.w.lastTicket
	x.timer.Reset(x.patience())
}

// patience returns how long an abandoned execution may go on. The worker's mu is held.
func (x *watch) patience() time.Duration {
	limit := cmp.Or(x.w.spec.Limits.Abandoned, abandonedTimeout)
	if x.leaving {
		limit = min(limit, leaveGrace)
	}
	return limit
}

// isAbandoned reports whether the process works, and no client waits for it. The worker's mu is held.
func (x *watch) isAbandoned() bool {
	if ex := x.w.current; ex != nil {
		return !slices.ContainsFunc(ex.requests, func(q pending) bool {
			return !q.done && !q.r.Null && !q.r.Cancelled()
		})
	}
	for _, q := range x.w.late {
		if !q.r.Cancelled() {
			return false
		}
	}
	return x.leaving && len(x.w.late) > 0
}

// check is called by the timer. It kills the process if its work has been abandoned since the timer was set.
func (x *watch) check() {
	w := x.w
	w.mu.Lock()
	now, limit := !w.closed && x.isAbandoned(), x.patience()
	stop := now && x.abandoned && x.ticket == w.lastTicket
	if !stop && !w.closed && (now || x.leaving) {
		x.set()
	}
	w.mu.Unlock()
	if stop {
		w.log.Warn("a model's process goes on with requests that no client waits for; it is killed",
			"pid", w.PID(), "after", limit)
		w.stop()
	}
}

// unloadOverdue reports whether the process was killed because of process.Limits.Unload.
func (w *Worker) unloadOverdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch.overdue
}

// restartLevel is the level at which the end of the process is logged. If the watch killed the process of a model that
// leaves service, it has said so, and another process is only for requests that are in the queue.
func (w *Worker) restartLevel() slog.Level {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch.leaving && w.stopped.Load() {
		return slog.LevelDebug
	}
	return slog.LevelError
}
