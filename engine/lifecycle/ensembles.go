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
	changed, err := m.changeOne(ctx, name, t)
	for _, part := range changed {
		m.updateDependents(part, name)
	}
	m.updateDependents(name, "")
	return err
}

// loadParts loads the models of an ensemble's steps as they are in the repository now, and returns the names of those
// that it looked at; none for other models. Their failures show when the ensemble is put together. e.op is held.
func (m *Manager) loadParts(ctx context.Context, src *repo.Model, over *override, polled bool) (parts []string, err error) {
	deps := m.dependenciesOf(src, over)
	if circle := m.circle([]string{src.Name}, deps); circle != nil {
		return nil, status.Errorf(status.InvalidArg, "circular dependency between ensembles: %s", strings.Join(circle, " -> "))
	}
	for _, dep := range deps {
		more, _ := m.changeOne(ctx, dep, task{look: func() (*repo.Model, error) { return m.find(dep) }, polled: polled})
		parts = append(append(parts, more...), dep)
	}
	return parts, nil
}

// dependenciesOf returns the models of a model's steps, as far as its configuration can be read.
func (m *Manager) dependenciesOf(src *repo.Model, over *override) []string {
	if src.Err != nil {
		return nil
	}
	cfg, _, err := m.readConfig(src, over, &plan{})
	if err != nil {
		return nil // the load says why
	}
	return ensemble.Dependencies(cfg)
}

// circle returns a way from the first model of the path over its dependencies back to one on the path, nil if there is
// none.
func (m *Manager) circle(path, deps []string) []string {
	for _, dep := range deps {
		way := append(slices.Clone(path), dep)
		if slices.Contains(path, dep) {
			return way
		}
		src, err := m.find(dep)
		if err != nil {
			continue // there is no such model; the load says so
		}
		if found := m.circle(way, m.dependenciesOf(src, nil)); found != nil {
			return found
		}
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
// the reason, what fits again is loaded. except is left alone.
func (m *Manager) updateDependents(name, except string) {
	m.mu.Lock()
	var all []string
	for other, e := range m.entries {
		if other != except && other != name && e.wanted && slices.Contains(ensemble.Dependencies(e.cfg), name) {
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
		m.updateEnsemble(other)
	}
}

// updateEnsemble checks an ensemble against the models of its steps.
func (m *Manager) updateEnsemble(name string) {
	e := m.lock(name, false)
	if e == nil {
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
		m.updateDependents(name, "")
	case !serving && over == nil:
		// Its outcome is in the index and the events.
		_ = m.change(m.open, name, task{look: func() (*repo.Model, error) { return m.find(name) }})
	}
}

// suspend takes a model out of service until what it needs is back. e.op is held.
func (m *Manager) suspend(e *entry, why error) {
	m.mu.Lock()
	m.step(e, suspended{why})
	m.mu.Unlock()
	m.o.Events.failed(e.name, 0, why, false)
}

// UnloadAll is Unload of a model and, if it is an ensemble, of the models of its steps that no other ensemble in service
// needs.
func (m *Manager) UnloadAll(name string) {
	m.mu.Lock()
	var deps []string
	if e := m.entries[name]; e != nil && e.wanted {
		deps = ensemble.Dependencies(e.cfg)
	}
	m.mu.Unlock()
	m.Unload(name)
	for _, dep := range deps {
		m.mu.Lock()
		needed := false
		for _, e := range m.entries {
			needed = needed || e.wanted && slices.Contains(ensemble.Dependencies(e.cfg), dep)
		}
		m.mu.Unlock()
		if !needed {
			m.UnloadAll(dep)
		}
	}
}
