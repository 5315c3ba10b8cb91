package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nereid/engine/clock"
	"nereid/engine/infer"
	"nereid/engine/status"
)

const (
	// A worker is started again at once. When that one ends too, the next waits for secondWait, and each further end in a row
	// doubles it, to longestWait. A worker that has executed a batch, or has lived for steady, begins a new row: a request
	// that ends its worker each time must not take the model from the others for ever longer.
	secondWait  = 200 * time.Millisecond
	longestWait = 30 * time.Second
	steady      = time.Minute
	// mostEnds in a row put an instance in quarantine: it is started no more until its model is loaded anew.
	mostEnds = 6
	// patience is how long a batch waits for a worker that is being started; if it takes longer, it fails at once.
	patience = 3 * time.Second
	// trimEvery is how often idle workers are asked to give memory back.
	trimEvery = 30 * time.Second
)

// State is what a Keeper's instance can do.
type State struct {
	// Err is nil if the instance takes requests, else why not: Unavailable.
	Err error
	// Ends is how often its worker has ended without being asked to.
	Ends int
	// Quarantined: it is not started again.
	Quarantined bool
}

// Report is what is known of a Keeper's worker, for people.
type Report struct {
	Name string // the model instance's
	// PID is 0 while no process runs.
	PID int
	// Since is when the process was taken into service; zero while none runs.
	Since time.Time
	// Bytes is the process's resident memory, with what is shared with it.
	Bytes int64
	State
	// Output is the last lines that the process wrote, Before those of the one before it.
	Output, Before []string
}

// Keeper has one worker running: when it ends, it starts another.
type Keeper struct {
	name  string
	log   *slog.Logger
	start func(context.Context) (*Worker, error)
	grace time.Duration
	stop  context.CancelFunc
	done  chan struct{}

	last *Worker // that executed a batch; of the goroutine in Execute

	mu      sync.Mutex
	worker  *Worker // guarded by mu, as is all below; nil: it is being started, or will be, or not any more
	state   State
	changed chan struct{} // closed and replaced with each change
	due     time.Time     // when the next is started, at the earliest
	since   time.Time     // when the worker was taken into service
	said    []string      // the last output of the worker before
}

// Keep has the worker that start makes running, and begins with first. start is called again whenever the worker has
// ended; it makes it ready to execute. name is the model instance's; grace is how long a worker may take to finalize.
func Keep(name string, log *slog.Logger, grace time.Duration, first *Worker, start func(context.Context) (*Worker, error)) *Keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &Keeper{name: name, log: log, start: start, grace: grace, stop: stop, done: make(chan struct{}), worker: first, changed: make(chan struct{}), since: time.Now()}
	go k.run(ctx)
	return k
}

// run watches the worker and starts it again.
func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	wait, ends, since := time.Duration(0), 0, time.Now()
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for w := k.Worker(); ; {
		for alive := true; alive; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				k.trim(ctx, w)
			case <-w.Done():
				alive = false
			}
		}
		if time.Since(since) > steady || w.Executed() {
			wait, ends = 0, 0
		}
		err := w.Err()
		w.Kill() // it has ended: this gives back what is left
		k.heard(w)
		for w = nil; w == nil; {
			ends++
			if !k.down(err, wait, ends >= mostEnds) || !clock.Sleep(ctx, wait) || ctx.Err() != nil {
				return
			}
			wait = min(max(2*wait, secondWait), longestWait)
			since = time.Now()
			if w, err = k.start(ctx); err != nil {
				k.log.Error("starting a model's process again failed", "instance", k.name, "err", err)
			}
		}
		k.up(w)
	}
}

// trim asks an idle worker to give memory back.
func (k *Keeper) trim(ctx context.Context, w *Worker) {
	if w.running.Load() != 0 {
		return // it would not answer before its execution is over
	}
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if err := w.Trim(ctx); err != nil {
		k.log.Debug("a model's process did not give memory back", "instance", k.name, "err", err)
	}
}

// down notes that the worker has ended; false: it is not started again.
func (k *Keeper) down(why error, wait time.Duration, quarantine bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.worker = nil
	k.state.Ends++
	k.due = time.Now().Add(wait)
	k.state.Quarantined = quarantine
	if quarantine {
		k.state.Err = status.Errorf(status.Unavailable, "model instance '%s' is not started again: its process ended %d times in a row; load the model anew once it is mended. The last time: %w", k.name, mostEnds, why)
		k.log.Error("a model's process ended too often and is not started again", "instance", k.name, "err", why)
	} else {
		k.state.Err = status.Errorf(status.Unavailable, "model instance '%s' is being started again: %w", k.name, why)
		k.log.Error("a model's process ended; it is started again", "instance", k.name, "err", why, "in", wait)
	}
	k.signal()
	return !quarantine
}

func (k *Keeper) up(w *Worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.worker, k.since = w, time.Now()
	k.state.Err = nil
	k.signal()
	k.log.Info("a model's process runs again", "instance", k.name, "pid", w.PID())
}

// signal wakes those who wait for a change. k.mu is held.
func (k *Keeper) signal() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Worker returns the worker that runs, nil if none does.
func (k *Keeper) Worker() *Worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.worker
}

// State returns what the instance can do now.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// heard keeps what a worker wrote last.
func (k *Keeper) heard(w *Worker) {
	lines := w.out.lines()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said = lines
}

// Report returns what is known of the worker now. Safe for concurrent use.
func (k *Keeper) Report() Report {
	k.mu.Lock()
	r := Report{Name: k.name, State: k.state, Before: slices.Clone(k.said)}
	w := k.worker
	if w != nil {
		r.PID, r.Since = w.PID(), k.since
	}
	k.mu.Unlock()
	if w != nil {
		r.Output, r.Bytes = w.out.lines(), max(0, w.ResidentBytes())
	}
	return r
}

// Execute runs a batch on the worker; see backend.Instance. When the worker ends, the requests that it had fail at once,
// and the instance is not free until there is another worker: what waits is not drawn into failing. Who brought the request
// and executes it inline is not held: the next batch waits then.
func (k *Keeper) Execute(ctx context.Context, b *infer.Batch) error {
	w, err := k.wait(ctx)
	if err != nil {
		return err
	}
	k.remind(w, b)
	err = w.Execute(ctx, b)
	if err == nil || w.Err() == nil {
		return err
	}
	if b.Sequenced {
		b.Lost = infer.LostNow
	}
	for _, r := range b.Requests {
		r.Fail(err)
	}
	k.left(w)
	if !b.Inline {
		_, _ = k.wait(ctx) // the next batch is told
	}
	return err
}

// ExecuteSeries runs batches of one request each one after the other; see backend.Series. When the worker ends, the requests
// that it had begun fail, and the others go to the next worker.
func (k *Keeper) ExecuteSeries(ctx context.Context, series []*infer.Batch, errs []error) {
	for len(series) > 0 {
		begun := len(series)
		w, err := k.wait(ctx)
		if err == nil {
			begun, err = w.ExecuteSeries(ctx, series)
		}
		ended := err != nil && w != nil && w.Err() != nil
		if !ended {
			begun = len(series)
		}
		for i := range begun {
			errs[i] = err
			if ended { // at once, not only when there is another worker
				series[i].Requests[0].Fail(err)
			}
		}
		if ended {
			k.left(w)
			_, _ = k.wait(ctx) // for the rest, or for the next batch: that is told
		}
		series, errs = series[begun:], errs[begun:]
	}
}

// remind answers the requests of sequences that began on another worker: what that one kept of them is gone.
func (k *Keeper) remind(w *Worker, b *infer.Batch) {
	last := k.last
	if k.last = w; !b.Sequenced || last == nil || last == w {
		return
	}
	b.Lost = infer.LostBefore
	for _, r := range b.Requests {
		if !r.Null && r.Flags&infer.SequenceStart == 0 {
			r.Fail(status.Errorf(status.Unavailable, "the process of model instance '%s' has been started again, and what it kept of the sequence is lost; start the sequence again", k.name))
		}
	}
}

// left notes that a worker has ended before run does, so that nobody takes it for the next.
func (k *Keeper) left(w *Worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.worker == w {
		k.worker = nil
		k.due = time.Now()
		k.state.Err = status.Errorf(status.Unavailable, "model instance '%s' is being started again: %w", k.name, w.Err())
	}
}

// wait returns the worker, once there is one. Errors: Unavailable when there will be none soon.
func (k *Keeper) wait(ctx context.Context) (*Worker, error) {
	var timeout *time.Timer
	for {
		k.mu.Lock()
		w, st, changed, due := k.worker, k.state, k.changed, k.due
		k.mu.Unlock()
		if w != nil && w.Err() == nil {
			return w, nil
		}
		if w != nil {
			k.left(w)
			continue
		}
		if st.Quarantined || time.Until(due) > patience {
			return nil, st.Err
		}
		if timeout == nil {
			timeout = time.NewTimer(patience)
			defer timeout.Stop()
		}
		select {
		case <-changed:
		case <-timeout.C:
			return nil, st.Err
		case <-ctx.Done():
			return nil, st.Err
		}
	}
}

// Close finalizes the worker and starts no other. It is not called during Execute.
func (k *Keeper) Close() error {
	k.stop()
	<-k.done
	w := k.Worker()
	if w == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), k.grace)
	defer stop()
	return w.Close(ctx)
}
