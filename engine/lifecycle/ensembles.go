package lifecycle

import (
	"context"
	"slices"
	"strings"

	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// change brings a model to what t asks for, the models of its steps first if it is an ensemble, and then brings the
// ensembles that it is part of in line. See changeOne.
func (m *Manager) change(ctx context.Context, name string, t task) error {
	return m.changeIn(ctx, name, t, map[string]bool{})
}

// changeIn is change within a round, which notes the ensembles that were loaded for a change of their parts: one that fails is
// not tried again for each way that leads to it.
func (m *Manager) changeIn(ctx context.Context, name string, t task, round map[string]bool) error {
	t.seen, t.clear = map[string]bool{}, map[string]bool{}
	changed, kept, err := m.changeOne(ctx, name, t)
	except := name
	if kept { // it may not fit its parts any more
		except = ""
	}
	for _, part := range changed {
		m.updateDependents(part, except, round)
	}
	m.updateDependents(name, "", round)
	return err
}

// loadParts loads the models of an ensemble's steps as they are in the repository now, and returns the names of those
// that it looked at; none for other models. Their failures show when the ensemble is put together. e.op is held.
func (m *Manager) loadParts(ctx context.Context, src *repo.Model, over *override, t task) (parts []string, err error) {
	deps := m.dependenciesOf(src, over)
	if circle := m.circle([]string{src.Key}, deps, t.clear); circle != nil {
		return nil, status.Errorf(status.InvalidArg, "circular dependency between ensembles: %s", strings.Join(circle, " -> "))
	}
	for _, dep := range deps {
		if t.seen[dep] {
			continue
		}
		t.seen[dep] = true
		more, _, _ := m.changeOne(ctx, dep, task{look: func() (*repo.Model, error) { return m.find(dep) }, polled: t.polled, deep: t.deep, seen: t.seen, clear: t.clear})
		parts = append(append(parts, more...), dep)
	}
	return parts, nil
}

// dependenciesOf returns the keys of the models of a model's steps, as far as its configuration can be read.
func (m *Manager) dependenciesOf(src *repo.Model, over *override) []string {
	if src.Err != nil {
		return nil
	}
	cfg, _, err := m.readConfig(src, over, &plan{})
	if err != nil {
		return nil // the load says why
	}
	_ = m.link(src, cfg) // what is missing the load says
	return ensemble.Parts(cfg)
}

// circle returns a way from the first model of the path over its dependencies back to one on the path, nil if there is
// none. clear holds the models from which none leads.
func (m *Manager) circle(path, deps []string, clear map[string]bool) []string {
	for _, dep := range deps {
		way := append(slices.Clone(path), dep)
		if slices.Contains(path, dep) {
			return way
		}
		if clear[dep] {
			continue
		}
		src, err := m.find(dep)
		if err != nil {
			continue // there is no such model; the load says so
		}
		if found := m.circle(way, m.dependenciesOf(src, nil), clear); found != nil {
			return found
		}
		clear[dep] = true
	}
	return nil
}

// partConfig tells an ensemble of the models of its steps; see ensemble.Lookup.
func (m *Manager) partConfig(name string, version int64) (*inferencepb.ModelConfig, error) {
	cfg, err := m.Config(name, version)
	if err == nil {
		return cfg, nil
	}
	s, known := m.Model(name)
	if !known {
		return nil, err
	}
	for _, v := range s.Versions {
		if v.Reason != "" && (version < 0 || v.Version == version) {
			return nil, status.Errorf(status.CodeOf(err), "version %d of model '%s': %s", v.Version, name, v.Reason)
		}
	}
	if s.Err != nil {
		return nil, status.Errorf(status.CodeOf(err), "model '%s' loading failed with error: %w", name, s.Err)
	}
	return nil, err
}

// updateDependents brings the ensembles that a model is part of in line with it: what no longer fits leaves service with
// the reason, what fits again is loaded. except is left alone, round is changeIn's.
func (m *Manager) updateDependents(name, except string, round map[string]bool) {
	m.mu.Lock()
	var all []string
	for other, e := range m.entries {
		if other != except && other != name && e.wanted && concerns(e.cfg, name) {
			all = append(all, other)
		}
	}
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return
	}
	slices.Sort(all)
	for _, other := range all {
		m.updateEnsemble(other, round)
	}
}

// updateEnsemble checks an ensemble against the models of its steps.
func (m *Manager) updateEnsemble(name string, round map[string]bool) {
	e := m.lock(name, false)
	if e == nil {
		return
	}
	if m.moved(e) {
		e.op.Unlock()
		m.reload(e, round)
		return
	}
	m.mu.Lock()
	serving := false
	var unfit error
	over := e.override
	for _, v := range e.versions {
		if v.model == nil {
			continue
		}
		serving = true
		mod := v.model
		m.mu.Unlock()
		err := mod.Refit(m.partConfig)
		m.mu.Lock()
		if err != nil {
			unfit = err
		}
	}
	wanted := e.wanted && !m.closed
	m.mu.Unlock()
	if unfit != nil {
		m.suspend(e, unfit)
	}
	e.op.Unlock()
	switch {
	case !wanted:
	case unfit != nil:
		m.updateDependents(name, "", round)
	case serving: // what is made of it has to know too
		m.updateDependents(name, "", round)
	case over == nil:
		m.reload(e, round)
	}
}

// reload loads an ensemble for a change of its parts, once in a round. Its outcome is in the index and the events.
func (m *Manager) reload(e *entry, round map[string]bool) {
	if round[e.name] {
		return
	}
	round[e.name] = true
	_ = m.changeIn(m.open, e.name, task{look: m.look(e), relink: true}, round)
}

// suspend takes a model out of service until what it needs is back. e.op is held.
func (m *Manager) suspend(e *entry, why error) {
	m.mu.Lock()
	m.step(e, suspended{why})
	m.mu.Unlock()
	m.o.Events.failed(e.name, 0, why, false)
}

// UnloadAll is Unload of a model and, if it is an ensemble, of the models of its steps that no other ensemble in service
// needs and that were not loaded by their own names.
func (m *Manager) UnloadAll(name string) {
	for _, key := range m.loaded(name) {
		m.unloadAll(key)
	}
}

func (m *Manager) unloadAll(name string) {
	m.mu.Lock()
	var deps []string
	if e := m.entries[name]; e != nil && e.wanted {
		deps = ensemble.Parts(e.cfg)
	}
	m.mu.Unlock()
	m.unload(name)
	for _, dep := range deps {
		m.mu.Lock()
		needed := m.entries[dep] != nil && m.entries[dep].asked
		for _, e := range m.entries {
			needed = needed || e.wanted && slices.Contains(ensemble.Parts(e.cfg), dep)
		}
		m.mu.Unlock()
		if !needed {
			m.unloadAll(dep)
		}
	}
}
