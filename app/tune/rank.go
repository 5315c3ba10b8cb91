package tune

import "slices"

// Rank orders configurations by their best trials: each is there once, under the load at which it is best. Those that keep
// the constraints come first. Of trials that differ by no more than noise, the one with the lower p99 is the better. Those
// that failed are left out.
func Rank(s *Space, g *Goal, trials []Trial) []Trial {
	all := heads(s, g, trials)
	out := make([]Trial, 0, len(all))
	for len(all) > 0 {
		i := g.pick(all)
		out = append(out, all[i])
		all = slices.Delete(all, i, i+1)
	}
	return out
}

// Best is the first trial of Rank if it keeps the constraints; false if none does.
func Best(s *Space, g *Goal, trials []Trial) (Trial, bool) {
	all := heads(s, g, trials)
	if len(all) == 0 {
		return Trial{}, false
	}
	best := all[g.pick(all)]
	return best, g.Keeps(&best.Measurement)
}

// heads are the best trials of each configuration, those that failed left out.
func heads(s *Space, g *Goal, trials []Trial) (out []Trial) {
	by := map[string][]Trial{}
	var order []string
	for _, t := range trials {
		if t.Failed != "" {
			continue
		}
		v := s.Variant(t.Candidate)
		if by[v] == nil {
			order = append(order, v)
		}
		by[v] = append(by[v], t)
	}
	for _, v := range order {
		out = append(out, by[v][g.pick(by[v])])
	}
	return out
}

// Baseline is the best trial of the present configuration; false if none was measured.
func Baseline(s *Space, g *Goal, trials []Trial) (Trial, bool) {
	var own []Trial
	for _, t := range trials {
		if s.IsPresent(t.Candidate) && t.Failed == "" {
			own = append(own, t)
		}
	}
	if len(own) == 0 {
		return Trial{}, false
	}
	return own[g.pick(own)], true
}

// pick is the index of the best trial: of those within the noise of the highest score, the one of the lowest p99.
func (g *Goal) pick(trials []Trial) int {
	top := 0
	for i := range trials {
		if g.above(&trials[i].Measurement, &trials[top].Measurement) {
			top = i
		}
	}
	best := top
	topScore, topOver := g.Score(&trials[top].Measurement)
	for i := range trials {
		score, over := g.Score(&trials[i].Measurement)
		if over == topOver && score >= topScore-noise && trials[i].P99 < trials[best].P99 {
			best = i
		}
	}
	return best
}

// above tells whether a is better than b, by however little.
func (g *Goal) above(a, b *Measurement) bool {
	as, ao := g.Score(a)
	bs, bo := g.Score(b)
	if ao != bo {
		return ao < bo
	}
	return as > bs
}
