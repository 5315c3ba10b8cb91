package ensemble

import (
	"context"
	"slices"

	"nereid/engine/infer"
)

// hold holds the models of the steps for a request: first those of g.models in their order, then those of ensembles
// among them. The caller calls unhold.
func (g *Graph) hold(r *infer.Request) []infer.Hold {
	all := make([]infer.Hold, 0, len(g.models))
	for _, m := range g.models {
		all = append(all, g.holdModel(m, r.Holds))
	}
	for i := range g.models {
		if m := all[i].Held; m != nil {
			all = m.HoldSteps(all, r.Holds)
		}
	}
	return all
}

// HoldSteps is infer.Held.HoldSteps. A model that is in all is not held again.
func (g *Graph) HoldSteps(all, from []infer.Hold) []infer.Hold {
	for _, m := range g.models {
		if find(all, m) != nil {
			continue
		}
		h := g.holdModel(m, from)
		all = append(all, h)
		if h.Held != nil {
			all = h.Held.HoldSteps(all, from)
		}
	}
	return all
}

// holdModel holds the version of a model that is in service, or else the one that from has.
func (g *Graph) holdModel(m stepModel, from []infer.Hold) infer.Hold {
	h := infer.Hold{Model: m.name, Version: m.version}
	if g.holder != nil {
		h.Held = g.holder(m.name, m.version)
	}
	if h.Held == nil {
		if old := find(from, m); old != nil && old.Held != nil && old.Held.Hold() {
			h.Held = old.Held
		}
	}
	return h
}

func find(all []infer.Hold, m stepModel) *infer.Hold {
	i := slices.IndexFunc(all, func(h infer.Hold) bool { return h.Named(m.name, m.version) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func unhold(all []infer.Hold) {
	for i := range all {
		if m := all[i].Held; m != nil {
			m.Unhold()
		}
	}
}

// infer admits the request of a step.
func (x *run) infer(s *step, r *infer.Request) error {
	m := x.holds[s.held].Held
	if m == nil || !m.AcquireHeld(r) {
		return x.g.host.Infer(context.Background(), r)
	}
	err := m.Infer(r)
	if err != nil {
		r.Failed = err
	}
	return err
}
