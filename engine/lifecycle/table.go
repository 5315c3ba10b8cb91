package lifecycle

import (
	"errors"
	"maps"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/status"
)

// table maps names to what is served. It does not change once stored.
type table struct {
	models map[string]*served
	names  names // what plain names mean; nil: there are no namespaces
}

// served is one model's versions in service; it may have none.
type served struct {
	versions map[int64]*model.Model // nil values: evicted
	newest   int64                  // 0: there is none
	latest   *model.Model           // the newest; nil: it is evicted, or there is none
	// lingering are models that left and may hold live sequences, the latest one first.
	lingering []*model.Model
	wanted    bool // it is to be served
}

// with returns a table in which a model has these versions. While it has any, those with a sequence batcher that leave
// linger.
func (t *table) with(name string, versions map[int64]*model.Model, wanted bool) *table {
	next := t.without(name)
	s := &served{versions: versions, wanted: wanted}
	for v, m := range versions {
		if v > s.newest {
			s.newest, s.latest = v, m
		}
	}
	if old := t.models[name]; old != nil && s.newest != 0 && keepSequences {
		for v, m := range old.versions {
			if m != nil && versions[v] != m && m.Sequenced() {
				s.lingering = append(s.lingering, m)
			}
		}
		s.lingering = append(s.lingering, old.lingering...)
	}
	return next.put(name, s)
}

// put adds a model to a table that is not stored yet.
func (t *table) put(name string, s *served) *table {
	t.models[name] = s
	if t.names != nil {
		t.names = namesOf(t.models)
	}
	return t
}

// over returns a table in which a model lingers no more.
func (t *table) over(name string, m *model.Model) *table {
	if !t.lingers(name, m) {
		return t
	}
	s := *t.models[name]
	s.lingering = slices.DeleteFunc(slices.Clone(s.lingering), func(l *model.Model) bool { return l == m })
	next := t.without(name)
	return next.put(name, &s)
}

// lingers reports whether a model is kept for its sequences.
func (t *table) lingers(name string, m *model.Model) bool {
	s := t.models[name]
	return s != nil && slices.Contains(s.lingering, m)
}

// without returns a table that does not know a model.
func (t *table) without(name string) *table {
	next := &table{models: maps.Clone(t.models)}
	if next.models == nil {
		next.models = map[string]*served{}
	}
	delete(next.models, name)
	if t.names != nil {
		next.names = namesOf(next.models)
	}
	return next
}

// ErrEvicted is Find's answer for a version in service whose memory was given back: see Manager.Wake.
var ErrEvicted = status.New(status.Unavailable, "the model is not in memory")

// Find returns the version of a model that is in service: the latest for infer.LatestVersion (-1). Errors: NotFound for a
// model or version that is not known and for a model without a version in service, Unavailable for a version that is known
// and not in service, both with Triton's texts; ErrEvicted.
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
	case !there && m.knows(key, version):
		return nil, status.Errorf(status.Unavailable, "Request for unknown model: '%s' version %d is not at ready state", name, version)
	case !there:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' version %d is not found", name, version)
	case mod == nil:
		return nil, ErrEvicted
	}
	return mod, nil
}

// knows reports whether there is something to say of a version, in service or not.
func (m *Manager) knows(name string, version int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
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

// AcquireFor is Acquire for a request: one that continues a sequence goes to the model that holds it.
func (m *Manager) AcquireFor(r *infer.Request) (*model.Model, error) {
	if !r.Correlation.IsZero() && r.Flags&infer.SequenceStart == 0 {
		if s, _, _ := m.table.Load().find(r.ModelName); s != nil {
			for _, old := range s.lingering {
				if (r.Version < 0 || r.Version == old.Version()) && old.AcquireSequence(r.Correlation) {
					return old, nil
				}
			}
		}
	}
	return m.Acquire(r.ModelName, r.Version)
}
