package tune

import (
	"context"
	"errors"
	"slices"
)

// Quick is a hill climb from the present configuration. It tries one axis after the other in growing steps, then two
// axes at once, until nothing is better or the budget is spent. If ctx ends or Measure fails it returns what was
// measured, and the error.
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

// load is the index of the load's axis.
func (c *climb) load() int { return len(c.axes) - 1 }

func (c *climb) run() error {
	var err error
	if c.best, err = c.probe(c.o.Space.Start()); err != nil {
		return err
	}
	if c.best.Failed != "" {
		return errors.New(Unmeasured(c.best.Failed))
	}
	if _, err = c.tryAxis(c.load()); err != nil {
		return err
	}
	if err = c.tryUsual(); err != nil {
		return err
	}
	for {
		better, err := c.tryAxes()
		if err != nil {
			return err
		}
		if better {
			continue
		}
		if better, err = c.tryPairs(); err != nil || !better {
			return err
		}
	}
}

// Unmeasured says that there is nothing to compare with. failed is why, of the present configuration's Measurement.
func Unmeasured(failed string) string {
	return "the present configuration cannot be measured: " + failed
}

// tryUsual tries what is often best: instances and threads whose product is the number of cores, no batching, and large
// batches. Each attempt starts at the best candidate so far.
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
		if err := c.set(assign{delay, 0}, assign{batch, rows}, assign{c.load(), 2 * rows * n}); err != nil {
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

// set tries values on axes. If they are better it also looks for a better load.
func (c *climb) set(to ...assign) error {
	next := slices.Clone(c.best.Candidate)
	for _, v := range to {
		next[v.axis] = c.nearest(v)
	}
	better, err := c.take(next)
	if better {
		_, err = c.tryAxis(c.load())
	}
	return err
}

// nearest is the index of the value of v's axis that is nearest to v's.
func (c *climb) nearest(v assign) int {
	a := &c.axes[v.axis]
	distance := func(i int) int {
		x := a.Values[i] - v.value
		if a.Field == Threads && a.Values[i] == 0 { // as many as there are cores
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

// tryAxes tries every axis. It adjusts the load first, and again after each improvement, because configurations must be
// compared under the loads that suit them.
func (c *climb) tryAxes() (better bool, err error) {
	load := c.load()
	if better, err = c.tryAxis(load); err != nil {
		return better, err
	}
	for axis := range load {
		moved, err := c.tryAxis(axis)
		if err != nil {
			return better, err
		}
		if !moved {
			continue
		}
		better = true
		if _, err := c.tryAxis(load); err != nil {
			return better, err
		}
	}
	return better, nil
}

// tryAxis tries larger values of an axis, and smaller ones if none of those is better.
func (c *climb) tryAxis(axis int) (better bool, err error) {
	for _, dir := range []int{1, -1} {
		moved, err := c.walk(axis, dir)
		if err != nil || moved {
			return moved, err
		}
	}
	return false, nil
}

// walk moves along an axis while that is better. Its steps double; the next call of tryAxes begins with small ones.
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

// try moves the best candidate on axes, and takes the result if it is better. A move stops at the end of its axis.
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

// tryPairs tries what single steps do not reach: two axes in opposite directions, and an axis with the load. It stops
// at the first improvement.
func (c *climb) tryPairs() (better bool, err error) {
	load := c.load()
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
