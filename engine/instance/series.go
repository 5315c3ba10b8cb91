package instance

import (
	"context"

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

// execute executes first and other waiting batches. It returns false, having done nothing, if no other batch waits or
// if the instance's executions take too long.
func (x *series) execute(ctx context.Context, first *infer.Batch) bool {
	t := &x.r.turn
	if t.mean == 0 || t.mean > seriesTime/2 || len(first.Requests) != 1 {
		return false
	}
	x.batches = x.batcher.More(x.r.id, append(x.batches[:0], first), min(seriesMost, int(seriesTime/t.mean))-1)
	if len(x.batches) == 1 {
		return false
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
	t.took(ended.Sub(began), len(x.batches))
	t.last = infer.Execution{Rows: len(x.batches), Requests: len(x.batches), Started: began, Ended: ended}
	for i, b := range x.batches {
		b.Ended = max(b.Output, b.Started) // the time until the series ended is not its own
		x.s.executed(x.r.id, b, x.errs[i])
	}
	clear(x.batches)
	clear(x.errs)
	return true
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
	x.inst.ExecuteSeries(ctx, x.batches, x.errs)
}
