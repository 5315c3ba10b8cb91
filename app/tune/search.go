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

// Result is what a search found. It is valid after an interrupted search too: see Ended.
type Result struct {
	Trials []Trial // in the order of measuring
	Steps  []Step  // of Quick
	// Ended is true if the search finished; false if its budget or its context ended first.
	Ended bool
}

// Options say what to search and how to measure.
type Options struct {
	Space Space
	Goal  Goal
	// Budget is the most measurements of Quick, including Known ones. 0: DefaultBudget.
	Budget int
	// Cores of the machine decide what Quick tries first. 0: 1.
	Cores int
	// Known are measurements of an earlier run by Space.Key. They are not measured again.
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
	limit  int // measurements; 0: no limit
	seen   map[string]int
	result Result
}

func newProber(ctx context.Context, o *Options, limit int) *prober {
	return &prober{o: o, ctx: ctx, limit: limit, seen: map[string]int{}}
}

// probe returns the trial of a candidate.
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

// Quick climbs from the present configuration. It tries one axis after the other in growing steps, then two axes at
// once, until nothing is better or the budget is spent. If ctx ends or Measure fails it returns what was measured, and
// the error.
func Quick(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return &Result{}, err
	}
	c := &climb{prober: newProber(ctx, &o, o.Budget), axes: o.Space.Axes}
	err := c.run()
	if errors.Is(err, errBudget) {
		err = nil
	} else {
		c.result.Ended = err == nil
	}
	return &c.result, err
}

// climb is the state of Quick.
type climb struct {
	*prober
	axes []Axis
	best Trial
}

func (c *climb) run() error {
	var err error
	if c.best, err = c.probe(c.o.Space.Start()); err != nil {
		return err
	}
	if c.best.Failed != "" {
		return fmt.Errorf("the present configuration cannot be measured: %s", c.best.Failed)
	}
	if _, err = c.line(len(c.axes) - 1); err != nil {
		return err
	}
	if err = c.tryUsual(); err != nil {
		return err
	}
	for {
		better, err := c.round()
		if err != nil {
			return err
		}
		if better {
			continue
		}
		if better, err = c.jump(); err != nil || !better {
			return err
		}
	}
}

// tryUsual tries what is often best: instances and threads whose product is the number of cores, no batching, and large
// batches. Each improvement is the start of the next attempt.
func (c *climb) tryUsual() error {
	for _, model := range c.models() {
		if err := c.tryInstances(model); err != nil {
			return err
		}
		if err := c.tryBatches(model); err != nil {
			return err
		}
	}
	return nil
}

// tryInstances tries numbers of instances that use all cores.
func (c *climb) tryInstances(model string) error {
	instances, threads := c.axis(model, Instances), c.axis(model, Threads)
	switch {
	case instances < 0:
		return nil
	case threads < 0:
		return c.set(assign{instances, c.o.Cores})
	}
	for _, n := range c.axes[instances].Values {
		if per := c.o.Cores / n; per >= 1 && n&(n-1) == 0 {
			if err := c.set(assign{instances, n}, assign{threads, per}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryBatches tries no dynamic batching, and large batches under a load that fills two batches of each instance.
func (c *climb) tryBatches(model string) error {
	batch, delay := c.axis(model, MaxBatch), c.axis(model, Delay)
	if delay < 0 {
		return nil
	}
	if err := c.set(assign{delay, NoBatching}); err != nil || batch < 0 {
		return err
	}
	n := 1
	if instances := c.axis(model, Instances); instances >= 0 {
		n = c.o.Space.Value(c.best.Candidate, instances)
	}
	for _, rows := range []int{64, 16} {
		if err := c.set(assign{delay, 0}, assign{batch, rows}, assign{len(c.axes) - 1, 2 * rows * n}); err != nil {
			return err
		}
	}
	return nil
}

// models are the models whose configuration may change.
func (c *climb) models() (names []string) {
	for _, a := range c.axes {
		if a.Field != Load && !slices.Contains(names, a.Model) {
			names = append(names, a.Model)
		}
	}
	return names
}

// axis is the index of a model's axis, -1 if there is none.
func (c *climb) axis(model string, f Field) int {
	return slices.IndexFunc(c.axes, func(a Axis) bool { return a.Model == model && a.Field == f })
}

// assign sets an axis to a value, or to the nearest value that it has.
type assign struct{ axis, value int }

// set tries values on axes. If they are better it looks for a better load too.
func (c *climb) set(to ...assign) error {
	next := slices.Clone(c.best.Candidate)
	for _, v := range to {
		next[v.axis] = c.nearest(v)
	}
	better, err := c.take(next)
	if better {
		_, err = c.line(len(c.axes) - 1)
	}
	return err
}

func (c *climb) nearest(v assign) int {
	a := &c.axes[v.axis]
	distance := func(i int) int {
		x := a.Values[i] - v.value
		if a.Field == Threads && a.Values[i] == 0 {
			x = c.o.Cores - v.value
		}
		return max(x, -x)
	}
	best := 0
	for i := range a.Values {
		if distance(i) < distance(best) {
			best = i
		}
	}
	return best
}

// round tries every axis. It adjusts the load first, and again after each improvement, because configurations have to
// be compared under the loads that suit them.
func (c *climb) round() (better bool, err error) {
	load := len(c.axes) - 1
	if better, err = c.line(load); err != nil {
		return better, err
	}
	for axis := range load {
		moved, err := c.line(axis)
		if err != nil {
			return better, err
		}
		if !moved {
			continue
		}
		better = true
		if _, err := c.line(load); err != nil {
			return better, err
		}
	}
	return better, nil
}

// line tries one axis, up and then down.
func (c *climb) line(axis int) (better bool, err error) {
	for _, dir := range []int{1, -1} {
		moved, err := c.walk(axis, dir)
		if err != nil || moved {
			return moved, err
		}
	}
	return false, nil
}

// walk takes steps that double while they are improvements. The next round takes smaller ones from there.
func (c *climb) walk(axis, dir int) (better bool, err error) {
	for step := dir; ; step *= 2 {
		moved, err := c.try(move{axis, step})
		if err != nil || !moved {
			return better, err
		}
		better = true
	}
}

// move is a step on an axis.
type move struct{ axis, by int }

// try measures the best candidate with moves, and takes it if it is better. A move stops at the end of its axis.
func (c *climb) try(moves ...move) (better bool, err error) {
	next := slices.Clone(c.best.Candidate)
	for _, m := range moves {
		next[m.axis] = min(max(next[m.axis]+m.by, 0), len(c.axes[m.axis].Values)-1)
	}
	return c.take(next)
}

// take measures a candidate and makes it the best if it is better.
func (c *climb) take(next Candidate) (better bool, err error) {
	if slices.Equal(next, c.best.Candidate) {
		return false, nil
	}
	t, err := c.probe(next)
	if err != nil || !c.o.Goal.better(&t.Measurement, &c.best.Measurement) {
		return false, err
	}
	c.result.Steps = append(c.result.Steps, Step{From: c.best, To: t})
	c.best = t
	return true, nil
}

// jump tries what single steps do not reach: two axes in opposite directions, and an axis and the load. It ends with
// the first improvement.
func (c *climb) jump() (better bool, err error) {
	load := len(c.axes) - 1
	var tries [][]move
	for a := range load {
		for b := a + 1; b < load; b++ {
			if c.axes[a].Model != c.axes[b].Model {
				continue
			}
			tries = append(tries, []move{{a, 1}, {b, -1}}, []move{{a, -1}, {b, 1}})
		}
	}
	for a := range load {
		tries = append(tries, []move{{a, 1}, {load, 1}}, []move{{a, -1}, {load, -1}}, []move{{a, -1}, {load, 1}},
			[]move{{a, 1}, {load, -1}})
	}
	for _, t := range tries {
		if moved, err := c.try(t...); err != nil || moved {
			return moved, err
		}
	}
	return false, nil
}
