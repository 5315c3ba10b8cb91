package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nereid/engine/clock"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/process"
)

// State is what a supervised instance can do.
type State struct {
	// Err is nil if the instance takes requests, else the reason: Unavailable.
	Err error
	// Ends is how often its process has ended without being asked to. A failed start counts too.
	Ends int
	// Quarantined says that the process is not started again, because too many starts have failed.
	Quarantined bool
}

// Report describes a supervised process, for people.
type Report struct {
	Name string // the model instance's
	// PID is 0 while no process runs.
	PID int
	// Since is when the process was taken into service; zero while none runs.
	Since time.Time
	// Bytes is the process's memory, with what is shared with it.
	Bytes int64
	State
	// Output is the last lines that the process wrote, Before those of the process before it.
	Output, Before []string
}

// Supervisor executes batches of one model instance on a worker, and starts another worker when the process ends.
// Execute and ExecuteSeries are called by one goroutine at a time; all other methods are safe for concurrent use.
type Supervisor struct {
	o     Supervision
	start func(context.Context) (*Worker, error)
	limit time.Duration // of start; 0: none
	// unload is process.Limits.Unload, or its default; see Leave.
	unload time.Duration
	stop   context.CancelFunc
	done   chan struct{}

	launcher *Launcher

	last *Worker // that executed a batch; of the goroutine in Execute

	mu      sync.Mutex
	worker  *Worker // guarded by mu, as are the next; nil: none runs
	state   State
	changed chan struct{} // closed and replaced with each change
	due     time.Time     // when the next worker is started, at the earliest
	since   time.Time     // when the worker was taken into service
	before  []string      // the last output of the worker before
	left    time.Time     // when Leave was called; zero: it was not
	over    bool          // no worker runs, and none will be started
}

// Supervision says what a Supervisor supervises.
type Supervision struct {
	Name    string        // the model instance's
	Passive bool          // see Spec
	Grace   time.Duration // how long a worker may take to finalize
	// Suspects are shared by the instances of a model. nil: no input is refused.
	Suspects *Suspects
	// Explain changes the error of a failed execution for clients. nil: it stays.
	Explain func(*Failure) error
	// Notify is called when the process has ended without being asked to, with the reason and whether it is started
	// again, and with nil when another one runs. It must not block. nil: nobody is notified.
	Notify func(why error, again bool)
	Log    *slog.Logger
}

// Supervise returns a supervisor that begins with first. It calls start whenever the process has ended; start returns
// a worker that is ready to execute. The caller closes the supervisor.
func Supervise(o Supervision, first *Worker, start func(context.Context) (*Worker, error)) *Supervisor {
	ctx, stop := context.WithCancel(context.Background())
	s := &Supervisor{
		o: o, start: start, limit: first.launcher.o.StartLimit, stop: stop, done: make(chan struct{}),
		unload: first.watch.unloadLimit(), launcher: first.launcher,
		worker: first, changed: make(chan struct{}), since: time.Now(),
	}
	first.suspects.Store(o.Suspects)
	go s.run(ctx)
	return s
}

// run restarts the worker until ctx ends or too many starts in a row have failed.
func (s *Supervisor) run(ctx context.Context) {
	defer close(s.done)
	var restarts process.Restarts
	since := time.Now()
	for w := s.Worker(); s.awaitEnd(ctx, w); {
		restarts.Healthy(time.Since(since), w.served.Load())
		err := w.Err()
		crashed, level := !w.stopped.Load(), w.restartLevel()
		w.Kill() // it has ended: this releases what is left
		s.keepOutput(w)
		w = nil
		for started := true; w == nil; started = false {
			if s.stopping(ctx) {
				s.giveUp(err, started && crashed)
				return
			}
			wait, again := restarts.Next(started)
			s.down(err, wait, !again, level)
			s.notify(err, again)
			if !again || !clock.Sleep(ctx, wait) || ctx.Err() != nil {
				return
			}
			if s.stopping(ctx) {
				continue
			}
			since = time.Now()
			if w, err = s.startWithin(ctx); err != nil && !s.stopping(ctx) {
				level = slog.LevelError
				s.o.Log.Error("starting a model's process again failed", "instance", s.o.Name, "err", err)
			}
		}
		s.up(w, min(level, slog.LevelInfo))
		s.notify(nil, false)
	}
}

// stopping reports whether another process is of no use: the model is being closed, or left service too long ago, or
// the server kills all processes.
func (s *Supervisor) stopping(ctx context.Context) bool {
	return ctx.Err() != nil || s.launcher.isStopped() || s.expired() != nil
}

// expired returns an error if the model left service longer than process.Limits.Unload ago.
func (s *Supervisor) expired() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left.IsZero() || time.Since(s.left) < s.unload {
		return nil
	}
	return status.Errorf(status.Unavailable, "model instance '%s' takes no more requests: its model was unloaded more "+
		"than %v ago (unload-timeout-seconds)", s.o.Name, s.unload)
}

// giveUp notes that the worker has ended and that no other one is started, because the server stops or the model is
// closed. Only a crash is reported.
func (s *Supervisor) giveUp(why error, crashed bool) {
	if crashed {
		s.o.Log.Error("a model's process ended", "instance", s.o.Name, "err", why)
		s.notify(why, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker, s.over = nil, true
	s.state.Err = status.Errorf(status.Unavailable,
		"model instance '%s' is not started again: %w", s.o.Name, why)
	s.signal()
}

func (s *Supervisor) notify(why error, again bool) {
	if s.o.Notify != nil {
		s.o.Notify(why, again)
	}
}

// startWithin is start with the limit.
func (s *Supervisor) startWithin(ctx context.Context) (*Worker, error) {
	if s.limit == 0 {
		return s.start(ctx)
	}
	limited, stop := context.WithTimeout(ctx, s.limit)
	defer stop()
	w, err := s.start(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = status.Errorf(status.Unavailable, "its start took longer than %v", s.limit)
	}
	return w, err
}

// awaitEnd waits until the worker has ended, and trims its memory now and then. An idle one is trimmed once more after
// its last execution, and then it sleeps. false: ctx has ended.
func (s *Supervisor) awaitEnd(ctx context.Context, w *Worker) bool {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	trimmed, last := false, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			n, busy := w.Executions(), w.Executing()
			if n != last || !trimmed {
				s.trim(ctx, w)
			}
			trimmed, last = n == last && !busy, n // a worker is not trimmed while it executes
		case <-w.Done():
			return true
		}
	}
}

// trim asks an idle worker to release memory.
func (s *Supervisor) trim(ctx context.Context, w *Worker) {
	if w.Executing() {
		return // it would not reply before its execution is over
	}
	ctx, stop := context.WithTimeout(ctx, trimTimeout)
	defer stop()
	if err := w.Trim(ctx); err != nil {
		s.o.Log.Debug("a model's process did not give memory back", "instance", s.o.Name, "err", err)
	}
}

// down notes that the worker has ended. level is that of the line in the log.
func (s *Supervisor) down(why error, wait time.Duration, quarantine bool, level slog.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker = nil
	s.state.Ends++
	s.due = time.Now().Add(wait)
	s.state.Quarantined = quarantine
	if quarantine {
		s.state.Err = status.Errorf(status.Unavailable,
			"model instance '%s' is not started again: its process failed to start %d "+
				"times in a row; repair the model and load it again. The last time: %w", s.o.Name,
			process.MaxFailedStarts,
			why)
		s.o.Log.Error("a model's process failed to start too often and is not started again", "instance", s.o.Name,
			"err", why)
	} else {
		s.state.Err = s.errRestarting(why)
		s.o.Log.Log(context.Background(), level, "a model's process ended; it is started again", "instance", s.o.Name,
			"err", why, "in", wait)
	}
	s.signal()
}

func (s *Supervisor) errRestarting(why error) error {
	return status.Errorf(status.Unavailable, "model instance '%s' is being started again: %w", s.o.Name, why)
}

func (s *Supervisor) up(w *Worker, level slog.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker, s.since = w, time.Now()
	w.suspects.Store(s.o.Suspects)
	if !s.left.IsZero() {
		w.watch.leaveBy(s.left)
	}
	s.state.Err = nil
	s.signal()
	s.o.Log.Log(context.Background(), level, "a model's process runs again", "instance", s.o.Name, "pid", w.PID())
}

// signal notifies the goroutines that wait for a change. s.mu is held.
func (s *Supervisor) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Leave notes that the model has left service. A process that executes only what no client waits for is stopped soon,
// in place of after process.Limits.Abandoned. Any other is stopped if it still works after process.Limits.Unload. From
// then on no other one is started, and no batch is executed. Leave returns that limit.
func (s *Supervisor) Leave() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left = time.Now(); s.worker != nil {
		s.worker.watch.leaveBy(s.left)
	}
	return s.unload
}

// Worker returns the worker that runs, nil if none does.
func (s *Supervisor) Worker() *Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// State returns what the instance can do now.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Down returns nil if a worker runs, else a channel that is closed at the next change; see backend.Intermittent.
func (s *Supervisor) Down() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Err == nil {
		return nil
	}
	return s.changed
}

// keepOutput keeps the last output of a worker that has ended.
func (s *Supervisor) keepOutput(w *Worker) {
	lines := w.output.Lines()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = lines
}

// Passive reports whether the instance takes no requests.
func (s *Supervisor) Passive() bool { return s.o.Passive }

// Report returns a description of the process.
func (s *Supervisor) Report() Report {
	s.mu.Lock()
	r := Report{Name: s.o.Name, State: s.state, Before: slices.Clone(s.before)}
	w := s.worker
	if w != nil {
		r.PID, r.Since = w.PID(), s.since
	}
	s.mu.Unlock()
	if w != nil {
		r.Output, r.Bytes = w.output.Lines(), w.ResidentBytes()
	}
	return r
}

// Execute runs a batch; see backend.Instance. If the process ends, the requests that it had fail at once. Execute then
// waits for another worker, so that requests in the queue do not fail too. A batch that runs on the request's own
// goroutine does not wait; the next batch does. Requests that Suspects refuses are not executed, and its suspects are
// executed one by one.
func (s *Supervisor) Execute(ctx context.Context, b *infer.Batch) error {
	return s.executeParts(ctx, b, !b.Inline)
}

// executeParts is Execute; patient says that it waits for another worker if the process ends.
func (s *Supervisor) executeParts(ctx context.Context, b *infer.Batch, patient bool) error {
	if !s.o.Suspects.any() {
		return s.execute(ctx, b, patient)
	}
	all := b.Requests
	defer func() { b.Requests = all }() // which the caller releases
	parts := [][]*infer.Request{all}
	if !b.Sequenced {
		parts = s.o.Suspects.separate(all)
	}
	for _, part := range parts {
		b.Requests = s.o.Suspects.refuse(part) // again for each, because parts may be equal
		if len(b.Requests) == 0 {
			continue
		}
		err := s.execute(ctx, b, patient)
		s.o.Suspects.survived(b.Requests, err)
		if err != nil && len(parts) == 1 {
			return err
		}
		for _, r := range b.Requests {
			if err != nil {
				r.Fail(err)
			}
		}
	}
	return nil
}

func (s *Supervisor) execute(ctx context.Context, b *infer.Batch, patient bool) error {
	w, err := s.wait(ctx)
	if err != nil {
		return err
	}
	s.failLostSequences(w, b)
	err = w.Execute(ctx, b)
	if err == nil || w.Err() == nil {
		return s.explain(err)
	}
	if b.Sequenced {
		b.Lost = infer.LostNow
	}
	for _, r := range b.Requests {
		r.Fail(err)
	}
	s.forget(w)
	if patient {
		_, _ = s.wait(ctx) // the next batch gets the error
	}
	return err
}

// explain applies Supervision.Explain.
func (s *Supervisor) explain(err error) error {
	var failure *Failure
	if s.o.Explain != nil && errors.As(err, &failure) {
		return s.o.Explain(failure)
	}
	return err
}

// ExecuteSeries runs batches of one request each, one after the other; see backend.Series. If the process ends, the
// requests that it had begun fail. The others go to another instance, or to the next worker.
func (s *Supervisor) ExecuteSeries(ctx context.Context, series []*infer.Batch, errs []error, leave func() bool) {
	for len(series) > 0 {
		begun, ended := 1, false
		if s.o.Suspects.any() { // one by one, until it is known which one crashes the process
			errs[0] = s.executeParts(ctx, series[0], false)
			ended = s.Down() != nil
		} else {
			begun, ended = s.executeSeries(ctx, series, errs)
		}
		series, errs = series[begun:], errs[begun:]
		if !ended {
			continue
		}
		if leave() {
			for i := range errs {
				errs[i] = infer.ErrNotBegun
			}
			return
		}
		_, _ = s.wait(ctx) // the rest, or the next batch, gets the error
	}
}

// executeSeries runs batches on the present worker. It returns how many of them are over, and whether the process has
// ended.
func (s *Supervisor) executeSeries(ctx context.Context, series []*infer.Batch, errs []error) (begun int, ended bool) {
	begun = len(series)
	w, err := s.wait(ctx)
	if err == nil {
		begun, err = w.ExecuteSeries(ctx, series)
	}
	ended = err != nil && w != nil && w.Err() != nil
	if !ended {
		begun = len(series)
	}
	for i := range begun {
		errs[i] = s.explain(err)
		if ended { // at once, before there is another worker
			series[i].Requests[0].Fail(err)
		}
	}
	if ended {
		s.forget(w)
	}
	return begun, ended
}

// failLostSequences answers the requests of sequences that began on another worker. Their state was lost with its
// process.
func (s *Supervisor) failLostSequences(w *Worker, b *infer.Batch) {
	last := s.last
	if s.last = w; !b.Sequenced || last == nil || last == w {
		return
	}
	b.Lost = infer.LostBefore
	for _, r := range b.Requests {
		if !r.Null && r.Flags&infer.SequenceStart == 0 {
			r.Fail(status.Errorf(status.Unavailable,
				"the process of model instance '%s' has been started again, and what it "+
					"kept of the sequence is lost; start the sequence again", s.o.Name))
		}
	}
}

// forget notes that a worker has ended before run does, so that it is not used for the next batch.
func (s *Supervisor) forget(w *Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == w {
		s.worker = nil
		s.due = time.Now()
		s.state.Err = s.errRestarting(w.Err())
	}
}

// wait returns the worker, once there is one. Errors: Unavailable when there will be none soon, or the model has
// expired.
func (s *Supervisor) wait(ctx context.Context) (*Worker, error) {
	var timeout *time.Timer
	for {
		if err := s.expired(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		w, st, over, changed, due := s.worker, s.state, s.over, s.changed, s.due
		s.mu.Unlock()
		if w != nil && w.Err() == nil {
			return w, nil
		}
		if w != nil {
			s.forget(w)
			continue
		}
		if st.Quarantined || over || time.Until(due) > restartPatience {
			return nil, st.Err
		}
		if timeout == nil {
			timeout = time.NewTimer(restartPatience)
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

// Close asks the model to finalize and ends the process. It is not called during Execute.
func (s *Supervisor) Close() error {
	s.stop()
	<-s.done
	w := s.Worker()
	if w == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), s.o.Grace)
	defer stop()
	return w.Close(ctx)
}
