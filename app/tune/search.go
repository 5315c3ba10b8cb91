package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Trial is a candidate and its measurement.
type Trial struct {
	Candidate Candidate
	Measurement
}

// Step is an improvement that Quick found: the best candidate before and after it.
type Step struct{ From, To Trial }

// Result is what a search found. It is also valid after an interrupted search: see Ended.
type Result struct {
	Trials []Trial // in the order of measuring
	Steps  []Step  // of Quick
	// Ended is true if the search finished, and false if its budget or its context ended first.
	Ended bool
}

// Options say what to search and how to measure.
type Options struct {
	Space Space
	Goal  Goal
	// Budget is the maximum number of measurements of Quick, including Known ones. 0: DefaultBudget.
	Budget int
	// Cores is the number of the machine's cores, for which Quick has first guesses. 0: 1.
	Cores int
	// Known has measurements of an earlier run, by Space.Key. They are not measured again.
	Known map[string]Measurement
	// Measure measures a candidate. If its configuration cannot be loaded it returns a Measurement with Failed. An
	// error ends the search.
	Measure func(ctx context.Context, c Candidate) (Measurement, error)
	// Done is called for each trial, by the goroutine of the search. fresh is false for a Known measurement. It may be
	// nil.
	Done func(t Trial, fresh bool)
}

// DefaultBudget is the default of Options.Budget.
const DefaultBudget = 60

func (o *Options) check() error {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	o.Cores = max(1, o.Cores)
	if o.Budget < 0 {
		return fmt.Errorf("the budget %d must not be negative", o.Budget)
	}
	return errors.Join(o.Space.Check(), o.Goal.Check())
}

// errBudget ends Quick when the budget is spent.
var errBudget = errors.New("the budget is spent")

// prober measures each candidate once.
type prober struct {
	o      *Options
	ctx    context.Context
	limit  int            // measurements; 0: no limit
	seen   map[string]int // index of the trial, by Space.Key
	result Result
}

func newProber(ctx context.Context, o *Options, limit int) *prober {
	return &prober{o: o, ctx: ctx, limit: limit, seen: map[string]int{}}
}

// probe returns the trial of a candidate, which is measured if it is new.
func (p *prober) probe(c Candidate) (Trial, error) {
	key := p.o.Space.Key(c)
	if i, ok := p.seen[key]; ok {
		return p.result.Trials[i], nil
	}
	if p.limit > 0 && len(p.result.Trials) >= p.limit {
		return Trial{}, errBudget
	}
	m, known := p.o.Known[key]
	if !known {
		if err := p.ctx.Err(); err != nil {
			return Trial{}, err
		}
		var err error
		if m, err = p.o.Measure(p.ctx, slices.Clone(c)); err != nil {
			return Trial{}, err
		}
	}
	t := Trial{Candidate: slices.Clone(c), Measurement: m}
	p.seen[key] = len(p.result.Trials)
	p.result.Trials = append(p.result.Trials, t)
	if p.o.Done != nil {
		p.o.Done(t, !known)
	}
	return t, nil
}
