package lifecycle

import (
	"errors"
	"maps"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// ErrEvicted is the error of Find for a version in service that is not in memory. Await takes requests for it.
var ErrEvicted = status.New(status.Unavailable, "the model is not in memory")

// Find returns the version of a model that is in service: the latest for infer.LatestVersion (-1). Errors, with
// Triton's texts: NotFound for an unknown model or version and for a model without a version in service, Unavailable
// for a version that is known and not in service. Also ErrEvicted.
func (m *Manager) Find(name string, version int64) (*model.Model, error) {
	s, key, err := m.table.Load().find(name)
	switch {
	case err != nil:
		return nil, err
	case s == nil && m.o.Namespaces: // with namespaces Triton has another code
		return nil, status.Errorf(status.InvalidArg, "Request for unknown model: '%s' is not found", name)
	case s == nil:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name)
	case version < 0 && s.latest != nil:
		return s.latest, nil
	case version < 0 && s.newest == 0:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' has no available versions", name)
	case version < 0:
		return nil, ErrEvicted
	}
	mod, there := s.versions[version]
	switch {
	case !there && (slices.Contains(s.former, version) || m.knows(key, version)):
		return nil, status.Errorf(status.Unavailable,
			"Request for unknown model: '%s' version %d is not at ready state", name, version)
	case !there:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' version %d is not found", name,
			version)
	case mod == nil:
		return nil, ErrEvicted
	}
	return mod, nil
}

// knows reports whether a version is known, in service or not.
func (m *Manager) knows(key string, version int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		return false
	}
	_, there := e.versions[version]
	return there
}

// Acquire finds a version and reserves a place for one request in it, which model.Infer uses up.
func (m *Manager) Acquire(name string, version int64) (*model.Model, error) {
	for {
		mod, err := m.Find(name, version)
		if err != nil {
			return nil, err
		}
		if mod.Acquire() {
			return mod, nil
		}
		// It began to close after we looked, so the table has been replaced: look again.
	}
}

// AcquireFor is Acquire for a request: one that continues a sequence goes to the model that holds it.
func (m *Manager) AcquireFor(r *infer.Request) (*model.Model, error) {
	if !r.Correlation.IsZero() {
		if s, _, _ := m.table.Load().find(r.ModelName); s != nil {
			if mod := s.acquireSequence(r); mod != nil {
				return mod, nil
			}
		}
	}
	return m.Acquire(r.ModelName, r.Version)
}

// acquireSequence reserves a place for a request that continues a sequence in the model that holds that. nil: none
// does, or the request starts one.
func (s *served) acquireSequence(r *infer.Request) *model.Model {
	if r.Flags&infer.SequenceStart != 0 || len(s.versions) < 2 && len(s.lingering) == 0 {
		return nil
	}
	own := s.latest
	if r.Version >= 0 {
		own = s.versions[r.Version]
	}
	if own != nil && own.AcquireSequence(r.Correlation) {
		return own
	}
	for _, other := range s.others(r, own) {
		if other.AcquireSequence(r.Correlation) {
			return other
		}
	}
	return nil
}

// others returns the models except own that may hold the sequence of a request. If it names no version, the latest one
// may have been another when the sequence began.
func (s *served) others(r *infer.Request, own *model.Model) (all []*model.Model) {
	if r.Version < 0 {
		for _, mod := range s.versions {
			if mod != nil && mod != own && mod.HoldsRoaming(r.Correlation) {
				all = append(all, mod)
			}
		}
	}
	for _, old := range s.lingering {
		if old != own && (r.Version < 0 || r.Version == old.Version()) {
			all = append(all, old)
		}
	}
	return all
}

// started ends what other models hold of a sequence that a request starts; see model.Spec.Started.
func (s steps) started(key string, own *model.Model, r *infer.Request) {
	all := s.m.table.Load().models[key]
	if all == nil || all.versions[own.Version()] != own && !slices.Contains(all.lingering, own) {
		return // a candidate gets copies of requests
	}
	for _, other := range all.others(r, own) {
		other.EndSequence(r.Correlation)
	}
}

// Config returns the effective configuration of a version in service, also of an evicted one. It must not be changed.
// Errors: NotFound, with Triton's texts.
func (m *Manager) Config(name string, version int64) (*inferencepb.ModelConfig, error) {
	mod, err := m.Find(name, version)
	if err == nil {
		return mod.Config(), nil
	}
	if !errors.Is(err, ErrEvicted) {
		return nil, err
	}
	key, err := m.key(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil && e.cfg != nil {
		return e.cfg, nil
	}
	return nil, ErrEvicted
}

// key returns the key of a model by its name or key; an unknown name is returned as it is. Errors: InvalidArg for a
// name that several models have.
func (m *Manager) key(name string) (string, error) {
	if !m.o.Namespaces {
		return name, nil
	}
	known := m.knownKeys(name)
	if len(known) == 1 && known[0] == name {
		return name, nil
	}
	s, key, err := m.table.Load().find(name)
	if s == nil && err == nil { // no model of that name was ever to be served
		switch len(known) {
		case 0:
		case 1:
			key = known[0]
		default:
			err = ambiguous(name, len(known))
		}
	}
	return key, err
}

// knownKeys returns the keys of the known models with a name or key.
func (m *Manager) knownKeys(name string) []string {
	if !m.o.Namespaces {
		return []string{name}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.entries[name]; known {
		return []string{name}
	}
	var all []string
	for key := range m.entries {
		if _, plain := repo.Split(key); plain == name {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// loadKeys returns the keys of the models that a load of a name or key concerns: those of the repositories' models of
// that name, or else the name.
func (m *Manager) loadKeys(name string) []string {
	if !m.o.Namespaces {
		return []string{name}
	}
	m.mu.Lock()
	_, known := m.entries[name]
	m.mu.Unlock()
	if namespace, _ := repo.Split(name); known || namespace != "" {
		return []string{name}
	}
	found := m.named(name)
	if len(found) == 0 {
		return []string{name} // the load reports what is wrong
	}
	return slices.Sorted(maps.Keys(found))
}

// each calls do for all keys and joins the errors. status.CodeOf returns the code of the first one.
func each(keys []string, do func(key string) error) error {
	var all []error
	for _, key := range keys {
		all = append(all, do(key))
	}
	return errors.Join(all...)
}
