package lifecycle

import (
	"context"
	"maps"
	"slices"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// LoadVersion loads one version of a model alone, whatever its version policy says, and waits; its other versions stay
// as they are. The version stays in service until it is unloaded or the model is loaded as a whole. Errors: those of
// Load, and NotFound for a version that is not in the repository.
func (m *Manager) LoadVersion(ctx context.Context, name string, version int64) error {
	if err := m.checkName(name); err != nil {
		return err
	}
	keys := m.loadKeys(name)
	if len(keys) > 1 {
		return ambiguous(name, len(keys))
	}
	key := keys[0]
	if version < 1 {
		return status.Errorf(status.InvalidArg,
			"version %d of model '%s' cannot be loaded: versions are numbers from 1 on", version, key)
	}
	before := m.inService(key)
	err := dependentsOf(m).change(key, func(o *operation) (bool, error) { return o.loadSingle(ctx, key, version) })
	if err == nil {
		m.o.Events.versionsChosen(key, before, m.inService(key))
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

// UnloadVersion takes one version of a model out of service. Its other versions stay, and it stays out, whatever the
// version policy says, until it or the whole model is loaded again. With the last version the model is unloaded. A
// version that is known and not in service is no error. Errors: NotFound.
func (m *Manager) UnloadVersion(name string, version int64) error {
	name, err := m.key(name)
	if err != nil {
		return err
	}
	e := m.lock(name, false)
	if e == nil {
		return status.Errorf(status.NotFound, "failed to unload version %d of '%s': there is no such model", version,
			name)
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
		return status.Errorf(status.NotFound, "failed to unload version %d of '%s': there is no such version", version,
			name)
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
	dependentsOf(m).update(name, "")
	return nil
}

// choice says which versions a change is to serve.
type choice struct {
	picked  map[int64]bool
	only    int64   // the version to be loaded alone; 0: the others count
	serving []int64 // what stays in service beside only
}

// choose returns the choice of versions for a change.
func (c *change) choose() choice {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return choice{maps.Clone(c.e.picked), c.only, slices.Sorted(maps.Keys(c.e.serving()))}
}

// of returns the versions to serve, ascending, where the version policy says policy and those of the repository are
// there.
func (c choice) of(policy, there []int64) ([]int64, error) {
	if c.only != 0 {
		if !slices.Contains(there, c.only) {
			return nil, status.Errorf(status.NotFound,
				"version %d is not in the model repository, there are %v", c.only, there)
		}
		all := append(slices.Clone(c.serving), c.only)
		slices.Sort(all)
		return slices.Compact(all), nil
	}
	var all []int64
	for _, n := range there {
		load, picked := c.picked[n]
		if picked && load || !picked && slices.Contains(policy, n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// noteSingle remembers that a version was loaded alone, and returns what the model comes from now. Its other versions
// may have changed since they were loaded, which the next scan has to see. Manager.mu is held.
func (c *change) noteSingle(p *plan, ok bool) *repo.Model {
	e, src := c.e, c.src
	if ok {
		c.m.step(e, chosen{c.only, true})
		for _, n := range p.policy {
			if v := e.versions[n]; n != c.only && (!v.serves() && v.reason == nil || e.src == nil) {
				c.m.step(e, chosen{n, false})
			}
		}
	}
	if e.src == nil || len(p.versions) == 1 {
		return src
	}
	merged := *e.src
	merged.Versions = maps.Clone(e.src.Versions)
	merged.Versions[c.only] = src.Versions[c.only]
	return &merged
}
