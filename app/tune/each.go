package tune

import "context"

// Each measures the present configuration and each one of Space.Singles, which shows what every change gains alone. If
// ctx ends or Measure fails it returns what was measured, and the error.
func Each(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return &Result{}, err
	}
	p := newProber(ctx, &o, 0)
	for _, c := range append([]Candidate{o.Space.Start()}, o.Space.Singles()...) {
		if err := p.all(c, len(c)-1); err != nil {
			return &p.result, err
		}
	}
	p.result.Ended = true
	return &p.result, nil
}
