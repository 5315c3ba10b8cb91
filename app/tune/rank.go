package tune

import "slices"

// Rank returns the best trial of each configuration, the best first. Trials that keep the constraints come before
// others. Of trials that differ by no more than noise, the one with the lower p99 is better. Failed trials are left
// out.
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

// Best returns the first trial of Rank; false if it does not keep the constraints.
func Best(s *Space, g *Goal, trials []Trial) (Trial, bool) {
	all := heads(s, g, trials)
	if len(all) == 0 {
		return Trial{}, false
	}
	best := all[g.pick(all)]
	return best, g.Keeps(&best.Measurement)
}

// heads are the best trials of each configuration. Failed trials are left out.
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

// Baseline returns the best trial of the present configuration; false if none was measured.
func Baseline(s *Space, g *Goal, trials []Trial) (Trial, bool) {
	var present []Trial
	for _, t := range trials {
		if s.IsPresent(t.Candidate) && t.Failed == "" {
			present = append(present, t)
		}
	}
	if len(present) == 0 {
		return Trial{}, false
	}
	return present[g.pick(present)], true
}

// pick returns the index of the best trial: of those within noise of the highest score, the one with the lowest p99.
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

// above reports whether a is better than b, even if only by noise.
func (g *Goal) above(a, b *Measurement) bool {
	as, ao := g.Score(a)
	bs, bo := g.Score(b)
	if ao != bo {
		return ao < bo
	}
	return as > bs
}
