package instance

import (
	"context"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
)

// An instance in another process costs two wake-ups for each batch, which is more than a short execution. If a model
// executes requests one by one, several waiting ones are sent to it together (backend.Series). Each is still a separate
// batch for the model, the statistics and its timestamps.

// seriesMost is the largest number of batches in a series.
const seriesMost = 32

// series executes several batches of a run one after the other. It belongs to the run's goroutine, which has the turn.
type series struct {
	s       *Set
	r       *run
	inst    backend.Series
	batcher sched.Serial
	batches []*infer.Batch
	errs    []error
}

// series returns what executes series on a run, or nil if it cannot: an instance with slots asks for them
// before each batch, and an execution of a decoupled model has no defined end.
func (s *Set) series(r *run) *series {
	inst, ok := r.inst.(backend.Series)
	batcher, serial := s.o.Batcher.(sched.Serial)
	if !ok || !serial || s.o.Decoupled || len(r.slots) > 0 {
		return nil
	}
	return &series{s: s, r: r, inst: inst, batcher: batcher}
}

// execute executes first and other waiting batches. done is false, and nothing was done, if no other batch waits or if
// the instance's executions take too long. rest are the batches that another instance is to execute, see again.
func (x *series) execute(ctx context.Context, first *infer.Batch) (rest []*infer.Batch, done bool) {
	t := &x.r.turn
	if t.mean == 0 || t.mean > seriesTime/2 || len(first.Requests) != 1 {
		return nil, false
	}
	x.batches = x.batcher.More(x.r.id, append(x.batches[:0], first), min(seriesMost, int(seriesTime/t.mean))-1)
	if len(x.batches) == 1 {
		return nil, false
	}
	x.s.o.Stats.Left(len(x.batches))
	x.errs = x.errs[:0]
	for _, b := range x.batches {
		b.Instance, b.Before = x.r.place.Name, t.last
		b.Begin()
		x.errs = append(x.errs, nil)
	}
	began := infer.Now()
	x.run(ctx)
	ended := infer.Now()
	n := len(x.batches)
	if i := slices.Index(x.errs, infer.ErrNotBegun); i >= 0 {
		n, rest = i, slices.Clone(x.batches[i:])
	}
	if n > 0 {
		t.took(ended.Sub(began), n)
		t.last = infer.Execution{Rows: n, Requests: n, Started: began, Ended: ended}
	}
	for i, b := range x.batches[:n] {
		b.Ended = max(b.Output, b.Started) // the time until the series ended is not its own
		x.s.executed(x.r.id, b, x.errs[i])
	}
	clear(x.batches)
	clear(x.errs)
	return rest, true
}

// again executes the request of a batch that the series of another instance has begun. The turn is held.
func (s *Set) again(r *run, old *infer.Batch) {
	b := infer.NewBatch()
	b.Requests, b.Rows = append(b.Requests, old.Requests...), old.Rows
	old.End()
	b.Instance, b.Before = r.place.Name, r.turn.last
	b.Begin()
	s.run(r.ctx, r, b)
}

// run calls the backend; see Execute.
func (x *series) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			err := panicked(x.s.o.Log, p)
			for i := range x.errs {
				x.errs[i] = err
			}
		}
	}()
	x.inst.ExecuteSeries(ctx, x.batches, x.errs, func() bool { return x.s.othersServe(x.r) })
}
