package lifecycle

import (
	"context"
	"maps"
	"slices"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// LoadVersion loads one version of a model alone, whatever its version policy says, and waits; its other versions stay
// as they are. It serves until it is unloaded or the model is loaded as a whole. Errors: those of Load, NotFound for a
// version that is not in the repository.
func (m *Manager) LoadVersion(ctx context.Context, name string, version int64) error {
	if err := m.checkName(name); err != nil {
		return err
	}
	keys := m.keys(name)
	if len(keys) > 1 {
		return ambiguous(name, len(keys))
	}
	name = keys[0]
	if version < 1 {
		return status.Errorf(status.InvalidArg, "version %d of model '%s' cannot be loaded: versions are numbers from 1 on", version, name)
	}
	before := m.inService(name)
	err := m.change(ctx, name, task{look: func() (*repo.Model, error) { return m.find(name) }, byHand: true, asked: true, only: version})
	if err == nil {
		m.o.Events.versionsChosen(name, before, m.inService(name))
	}
	return err
}

// inService returns the versions of a model in service, ascending.
func (m *Manager) inService(name string) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[name]; e != nil {
		return slices.Sorted(maps.Keys(e.serving()))
	}
	return nil
}

// UnloadVersion takes one version of a model out of service; its other versions serve on, and it stays out, whatever the
// version policy says, until it is loaded again or the model is as a whole. With the last one the model is unloaded. A
// version that is known and does not serve is no error. Errors: NotFound.
func (m *Manager) UnloadVersion(name string, version int64) error {
	name, err := m.key(name)
	if err != nil {
		return err
	}
	e := m.lock(name, false)
	if e == nil {
		return status.Errorf(status.NotFound, "failed to unload version %d of '%s': there is no such model", version, name)
	}
	before := m.inService(name)
	m.mu.Lock()
	v, known := e.versions[version]
	last := true
	for n, other := range e.versions {
		last = last && (n == version || !other.serves())
	}
	switch {
	case !known:
		m.mu.Unlock()
		e.op.Unlock()
		return status.Errorf(status.NotFound, "failed to unload version %d of '%s': there is no such version", version, name)
	case v.serves() && last:
		m.mu.Unlock()
		m.retire(e, retired{byHand: true}, true)
	default:
		m.step(e, chosen{version, false})
		m.step(e, dropped{version})
		m.mu.Unlock()
	}
	m.o.Events.versionsChosen(name, before, m.inService(name))
	e.op.Unlock()
	m.updateDependents(name, "", map[string]bool{})
	return nil
}

// choice says which versions a change is to serve.
type choice struct {
	picked  map[int64]bool
	only    int64
	serving []int64 // what stays beside only
}

// choose reads a model's choice. e.op is held.
func (m *Manager) choose(e *entry, only int64) choice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return choice{maps.Clone(e.picked), only, slices.Sorted(maps.Keys(e.serving()))}
}

// of returns the versions that serve where the version policy says chosen, ascending. there are those in the repository.
func (c choice) of(src *repo.Model, chosen, there []int64) ([]int64, error) {
	if c.only != 0 {
		if !slices.Contains(there, c.only) {
			return nil, status.Errorf(status.NotFound, "version %d is not in the model repository, there are %v", c.only, there)
		}
		all := append(slices.Clone(c.serving), c.only)
		slices.Sort(all)
		return slices.Compact(all), nil
	}
	var all []int64
	for _, n := range there {
		picked, was := c.picked[n]
		if was && picked || !was && slices.Contains(chosen, n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// note remembers that a version was loaded alone, and returns what the model comes from now: its other versions may
// have changed since they were loaded, which the next look is to see. m.mu is held.
func (m *Manager) note(e *entry, src *repo.Model, p *plan, only int64, ok bool) *repo.Model {
	if ok {
		m.step(e, chosen{only, true})
		for _, n := range p.policy {
			if v := e.versions[n]; n != only && !v.serves() && v.reason == nil || e.src == nil && n != only {
				m.step(e, chosen{n, false})
			}
		}
	}
	if e.src == nil || len(p.versions) == 1 {
		return src
	}
	merged := *e.src
	merged.Versions = maps.Clone(e.src.Versions)
	merged.Versions[only] = src.Versions[only]
	return &merged
}
