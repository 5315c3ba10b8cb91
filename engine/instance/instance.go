package instance

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
	"nereid/engine/stats"
	"nereid/engine/status"
)

// Options say what a Set runs.
type Options struct {
	Model      backend.Model
	Batcher    sched.Batcher
	Stats      *stats.Version
	Log        *slog.Logger
	Decoupled  bool
	Placements []backend.Placement
	Limiter    *Limiter // nil: the server has none, and rate limiters of instance groups do not count
	Slices     *Slices  // of the server; nil: of this set alone
	// Parallel is how many instances may be made at once. 0: 1.
	Parallel int
	// Warmup, if not nil, is called on each instance before it takes requests.
	Warmup func(ctx context.Context, name string, inst backend.Instance) error
}

// Set is a model version's instances.
type Set struct {
	o    Options
	wg   sync.WaitGroup
	mu   sync.Mutex
	runs []*run // guarded by mu, as is gone
	gone []*run // removed by Resize, perhaps still executing
	next sched.InstanceID
	free []sched.InstanceID // of instances that have ended

	devices *Limiter // one execution on each device, for instances that need that

	current atomic.Pointer[[]*run] // a copy of runs, for Inline

	stranded atomic.Int32 // goroutines with a batch that wait for a turn; see acquire
	freed    *sync.Cond   // for them: a turn was released
}

// run is one instance and its goroutine.
type run struct {
	place backend.Placement
	inst  backend.Instance
	id    sched.InstanceID
	leave context.CancelFunc // take no more batches; the present one ends
	stop  context.CancelFunc // end the present execution
	done  chan struct{}
	ctx   context.Context // of its executions
	turn  turn
	slots slots // which it holds while it executes

	intermittent backend.Intermittent // inst; nil: it can always execute
}

// Start makes and warms all instances, then lets them take requests. On an error, or when ctx ends, what was made is
// closed again.
func Start(ctx context.Context, o Options) (*Set, error) {
	s := &Set{o: o, devices: NewLimiter(nil), freed: sync.NewCond(new(sync.Mutex))}
	made, err := s.makeAll(ctx, o.Placements)
	if err != nil {
		return nil, err
	}
	s.begin(made)
	return s, nil
}

// drop releases what was made of a run that never began.
func (r *run) drop() (err error) {
	r.slots.leave()
	if r.inst != nil {
		err = r.inst.Close()
	}
	return err
}

// end removes an instance that takes no more batches from the scheduler and the set.
func (s *Set) end(r *run) {
	if b, ok := s.o.Batcher.(sched.Remover); ok {
		b.Remove(r.id)
	}
	r.slots.release()
	r.slots.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, r.id)
}

func (s *Set) begin(made []*run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range made {
		pull, leave := context.WithCancel(context.Background())
		ctx, stop := context.WithCancel(context.Background())
		r.leave, r.stop = leave, stop
		r.ctx = ctx
		r.intermittent, _ = r.inst.(backend.Intermittent)
		if bound, ok := s.o.Batcher.(sched.Binder); ok && !r.place.Passive {
			bound.Attach(r.id)
		}
		s.runs = append(s.runs, r)
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			defer close(r.done)
			defer stop() // frees the contexts
			defer leave()
			if r.place.Passive {
				s.rest(pull, r)
				return
			}
			s.live(r.place, func() { s.loop(pull, ctx, r) })
		}()
	}
	s.publishLocked()
}

// publishLocked publishes the instances for Inline. s.mu is held.
func (s *Set) publishLocked() {
	runs := slices.DeleteFunc(slices.Clone(s.runs), func(r *run) bool { return r.place.Passive || s.pins(r.place) })
	s.current.Store(&runs)
}

// Placements returns where the instances run, in order.
func (s *Set) Placements() []backend.Placement {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]backend.Placement, 0, len(s.runs))
	for _, r := range s.runs {
		all = append(all, r.place)
	}
	return all
}

// Count returns the number of instances.
func (s *Set) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// Working returns the number of instances that take requests.
func (s *Set) Working() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if !r.place.Passive {
			n++
		}
	}
	return n
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Close waits until the scheduler, which the caller has closed, is empty and every instance is closed. If ctx ends
// first, executions are cancelled; Close still waits for them.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	for _, r := range s.runs {
		if r.place.Passive {
			r.leave()
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.mu.Lock()
		for _, r := range append(s.gone, s.runs...) {
			r.stop()
		}
		s.mu.Unlock()
		<-done
	}
}

// rest waits until a passive instance is to be closed, and closes it.
func (s *Set) rest(pull context.Context, r *run) {
	<-pull.Done()
	r.slots.leave()
	s.mu.Lock()
	s.free = append(s.free, r.id)
	s.mu.Unlock()
	s.closeInstance(r)
}

func (s *Set) closeInstance(r *run) {
	if err := r.inst.Close(); err != nil {
		s.o.Log.Error("closing a model instance failed", "instance", r.place.Name, "err", err)
	}
}

// loop executes the batches of one instance under ctx, until pull ends or there are no more.
func (s *Set) loop(pull, ctx context.Context, r *run) {
	var gate *sched.Gate
	if len(r.slots) > 0 {
		gate = &sched.Gate{Pass: func(pull context.Context) error { return r.slots.acquire(pull, ctx.Done()) }}
	}
	series := s.series(r)
	slice := newSlice(&s.o)
	defer slice.free()
	for pull.Err() == nil { // Next looks only when it waits, and may never wait
		if r.down() != nil {
			if gate != nil && gate.Passed {
				gate.Passed = false
				r.slots.release()
			}
			s.leaveToOthers(pull, r)
		}
		b, err := s.o.Batcher.Next(pull, r.id, gate)
		if err != nil {
			break // closed and empty, or the instance is removed
		}
		if b != nil {
			s.serve(ctx, r, b, series, &slice)
		}
		switch {
		case gate == nil:
		case b != nil:
			gate.Passed = r.slots.renew()
		default:
			gate.Passed = false
			r.slots.release()
		}
		slice.yield()
	}
	s.end(r)
	r.turn.Lock()
	defer s.release(r)
	r.turn.closed = true
	s.closeInstance(r)
}

// serve executes a batch that the goroutine of r has, on r if it can. x, if not nil, may execute others with it.
func (s *Set) serve(ctx context.Context, r *run, b *infer.Batch, x *series, slice *slice) {
	on := s.acquire(r, b)
	var rest []*infer.Batch
	done := false
	if on == r && x != nil {
		rest, done = x.execute(ctx, b)
	}
	if !done {
		slice.begin()
		n := len(b.Requests) // the batch ends with its execution
		slice.end(s.execute(on.ctx, on, b), n)
	}
	s.release(on)
	for _, b := range rest {
		on := s.acquire(r, b)
		s.again(on, b)
		s.release(on)
	}
}

// execute executes a batch and answers the requests that the backend did not. It returns the duration. The turn is
// held.
func (s *Set) execute(ctx context.Context, r *run, b *infer.Batch) time.Duration {
	s.o.Stats.Left(len(b.Requests) - b.Nulls)
	b.Instance, b.Before = r.place.Name, r.turn.last
	b.Begin()
	return s.run(ctx, r, b)
}

// run executes a batch that has begun; see execute.
func (s *Set) run(ctx context.Context, r *run, b *infer.Batch) time.Duration {
	err := Execute(ctx, r.inst, b, s.o.Log)
	b.Ended = infer.Now()
	ran := b.Ended.Sub(b.Started)
	r.turn.took(ran, len(b.Requests))
	r.turn.last = infer.Execution{Rows: b.Rows, Requests: len(b.Requests) - b.Nulls, Started: b.Started, Ended: b.Ended}
	s.executed(r.id, b, err)
	return ran
}

// executed answers the requests of an executed batch that the backend did not, and releases all.
func (s *Set) executed(id sched.InstanceID, b *infer.Batch, err error) {
	for _, r := range b.Requests {
		switch {
		case r.Answered():
		case err != nil:
			r.Fail(err)
		case r.Rescheduled():
			s.reschedule(r, b)
		case !s.o.Decoupled || r.Null: // otherwise its responses may come later
			r.Fail(status.Errorf(status.Internal, "backend did not answer a request for model '%s'", r.ModelName))
		}
	}
	if bound, ok := s.o.Batcher.(sched.Binder); ok && b.Lost != infer.NothingLost {
		bound.EndSequences(id, b.Lost == infer.LostBefore)
	}
	s.o.Stats.Executed(b)
	for _, r := range b.Requests {
		r.Release()
	}
	b.End()
}

// reschedule returns a request of a batch to the scheduler, to be executed again. If it cannot, it answers the request
// with the reason.
func (s *Set) reschedule(r *infer.Request, b *infer.Batch) {
	r.LeaveBatch()
	s.o.Stats.Stepped(b)
	s.o.Stats.Admitted()
	err := status.Errorf(status.Internal,
		"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, but model '%s' has no iterative_sequence "+
			"in a sequence_batching",
		r.ModelName)
	if again, ok := s.o.Batcher.(sched.Rescheduler); ok {
		err = again.Reschedule(r)
	}
	if err != nil {
		r.Fail(err)
	}
}

// Execute calls inst.Execute and turns a panic of a Go backend into an error, so that only its batch fails. The stack
// goes to the log: it is not the clients' to see.
func Execute(ctx context.Context, inst backend.Instance, b *infer.Batch, log *slog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(log, p)
		}
	}()
	return inst.Execute(ctx, b)
}

// panicked logs a backend's panic p and returns the error for its requests.
func panicked(log *slog.Logger, p any) error {
	log.Error("a backend panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Errorf(status.Internal, "backend panicked: %v", p)
}
