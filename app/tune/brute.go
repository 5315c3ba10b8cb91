package tune

import (
	"context"
	"slices"
)

// Brute measures every candidate: the present configuration first, and each configuration under all loads before the
// next. If ctx ends or Measure fails it returns what was measured, and the error.
func Brute(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return &Result{}, err
	}
	p := newProber(ctx, &o, 0)
	err := p.all(o.Space.Start(), len(o.Space.Axes)-1) // the present configuration
	if err == nil {
		err = p.all(o.Space.Start(), 0)
	}
	p.result.Ended = err == nil
	return &p.result, err
}

// all measures the candidates with c's values on the axes before from.
func (p *prober) all(c Candidate, from int) error {
	if from == len(c) {
		_, err := p.probe(c)
		return err
	}
	a := &p.o.Space.Axes[from]
	for i := range a.Values {
		if a.Present && a.Field != Load && i == a.Start {
			continue
		}
		next := slices.Clone(c)
		next[from] = i
		if err := p.all(next, from+1); err != nil {
			return err
		}
	}
	return nil
}
