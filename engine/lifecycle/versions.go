package lifecycle

import (
	"context"
	"maps"
	"slices"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// LoadVersion loads one version of a model, even against its version policy, and returns when that is done. The other
// versions do not change. The version stays in service until it is unloaded or the model is loaded as a whole.
//
// Errors: those of Load, NotFound for a version that is not in the repository, InvalidArg for a version below 1.
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

// UnloadVersion takes one version of a model out of service. The other versions stay in service. The version policy
// does not load it again, only LoadVersion or Load of the whole model. With the last version the model is unloaded.
// A version that is known and not in service is no error. Errors: NotFound, and InvalidArg for a name that several
// models have.
func (m *Manager) UnloadVersion(name string, version int64) error {
	name, err := m.key(name)
	if err != nil {
		return err
	}
	e := m.lockToUnload(name)
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
	picked  map[int64]bool // see life.picked
	only    int64          // the version to be loaded alone; 0: picked and the version policy decide
	serving []int64        // the versions in service now; they stay there if only is loaded
	// again says that the versions in service, which are evicted, are to be loaded again, and no others, unless their
	// folders are gone.
	again bool
}

// choose returns the choice of versions for a change.
func (c *change) choose() choice {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return choice{maps.Clone(c.e.picked), c.only, slices.Sorted(maps.Keys(c.e.serving())), c.whenFull == stayEvicted}
}

// of returns the versions to serve, ascending. policy are the versions that the version policy selects, there those in
// the repository. Errors: NotFound if only is not in the repository.
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
	if all := c.evicted(there); len(all) > 0 {
		return all, nil
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

// evicted returns the versions that are to be loaded again; none for other changes.
func (c choice) evicted(there []int64) (all []int64) {
	for _, n := range there {
		if c.again && slices.Contains(c.serving, n) {
			all = append(all, n)
		}
	}
	return all
}

// noteAgain returns the files that a model is served from after its evicted versions were loaded again. For the other
// versions these are the files that were tried before, so that the next load or scan sees changes. Manager.mu is held.
func (c *change) noteAgain(p *plan) *repo.Model {
	if c.e.src == nil {
		return c.src
	}
	merged := *c.src
	merged.Versions = maps.Clone(c.e.src.Versions)
	for _, n := range p.versions {
		merged.Versions[n] = c.src.Versions[n]
	}
	return &merged
}

// noteSingle remembers that a version was loaded alone, if ok, and returns the files that the model is served from. For
// the other versions these are the files that were loaded, so that the next scan sees changes. Manager.mu is held.
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
