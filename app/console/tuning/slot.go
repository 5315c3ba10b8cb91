package tuning

import (
	"context"
	"slices"
	"sync"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// slot has the load test or the tuning that runs. There is one at a time, since two would distort each other's figures.
type slot struct {
	mu  sync.Mutex
	job *job // nil while nothing runs; guarded by mu, with what it points to
}

type job struct {
	what     string // what runs, for error texts
	model    string
	loadTest *api.LoadTest // nil for a tuning
	tuning   *record       // nil for a load test
	cancel   context.CancelFunc
}

// claim occupies the slot for a model. It returns a conflict if something runs.
func (s *slot) claim(model, what string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != nil {
		return nil, rest.Errorf(api.CodeConflict,
			"%s; wait for its end or stop it, because two at a time would distort each other's figures", s.job.what)
	}
	s.job = &job{model: model, what: "model " + rest.Quote(model) + " is being " + what}
	return s.job, nil
}

// release frees the slot.
func (s *slot) release() { s.update(func() { s.job = nil }) }

// update lets f change the job.
func (s *slot) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// loadTest returns a copy of the load test that runs, if it is of that model, and the function that stops it.
func (s *slot) loadTest(model string) (api.LoadTest, context.CancelFunc, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job == nil || s.job.loadTest == nil || s.job.model != model {
		return api.LoadTest{}, nil, false
	}
	t := *s.job.loadTest
	t.Points = slices.Clone(t.Points)
	return t, s.job.cancel, true
}

// tuning returns a copy of the tuning that runs, if it has that ID, without the trials before from, and the function
// that stops it.
func (s *slot) tuning(id int64, from int) (record, context.CancelFunc, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job == nil || s.job.tuning == nil || s.job.tuning.Tuning.ID != id {
		return record{}, nil, false
	}
	t := *s.job.tuning
	t.Tuning.Configs, t.Texts = slices.Clone(t.Tuning.Configs), slices.Clone(t.Texts)
	t.skip(from)
	t.Tuning.Trials = slices.Clone(t.Tuning.Trials)
	return t, s.job.cancel, true
}
