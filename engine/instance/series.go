package instance

import (
	"context"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
)

// An instance in a process of its own costs two wake-ups a batch, which is more than a brief execution. Where a model has
// requests executed one by one, several that wait are given to it together (backend.Series): each is still a batch of its
// own, for the model, for the statistics and for its stamps.

const (
	// seriesMost is how many batches an instance is given at once, seriesTime how long they may be likely to take together:
	// those that come meanwhile cannot go before them, and another instance cannot take them over.
	seriesMost = 32
	seriesTime = 2 * time.Millisecond
	// seriesEach is the longest mean time of an execution: of longer ones the wake-ups are a small part.
	seriesEach = time.Millisecond
)

// series executes several batches of a run one after the other. It belongs to the run's goroutine, which has the turn.
type series struct {
	s       *Set
	r       *run
	inst    backend.Series
	batcher sched.Serial
	batches []*infer.Batch
	errs    []error
}

// series returns what executes series on a run, nil if that is not for it: an instance that may hold resources of the rate
// limiter asks for them before each batch, and what a decoupled model executes has no end to be followed by another.
func (s *Set) series(r *run) *series {
	inst, ok := r.inst.(backend.Series)
	batcher, serial := s.o.Batcher.(sched.Serial)
	if !ok || !serial || s.o.Decoupled || r.slot != nil {
		return nil
	}
	return &series{s: s, r: r, inst: inst, batcher: batcher}
}

// execute runs first and what else waits; false: nothing else is to be run, or this instance takes too long.
func (x *series) execute(ctx context.Context, first *infer.Batch) bool {
	t := &x.r.turn
	if t.mean == 0 || t.mean > seriesEach || len(first.Requests) != 1 {
		return false
	}
	x.batches = x.batcher.More(x.r.id, append(x.batches[:0], first), min(seriesMost, int(seriesTime/t.mean))-1)
	if len(x.batches) == 1 {
		return false
	}
	x.s.o.Stats.Left(len(x.batches))
	x.errs = x.errs[:0]
	for _, b := range x.batches {
		b.Begin()
		x.errs = append(x.errs, nil)
	}
	began := infer.Now()
	x.run(ctx)
	ended := infer.Now()
	t.took(ended.Sub(began), len(x.batches))
	for i, b := range x.batches {
		b.Ended = max(b.Output, b.Started) // it waited for those behind it, which is no time of its own
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
