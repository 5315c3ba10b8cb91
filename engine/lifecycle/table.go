package lifecycle

import (
	"maps"

	"nereid/engine/model"
	"nereid/engine/status"
)

// table maps names to what is served. It does not change once stored.
type table struct {
	models map[string]*served
}

// served is one model's versions in service; it may have none.
type served struct {
	versions map[int64]*model.Model
	latest   *model.Model
}

// with returns a table in which a model has other versions; nil: the model is forgotten.
func (t *table) with(name string, versions map[int64]*model.Model, known bool) *table {
	next := &table{models: maps.Clone(t.models)}
	if next.models == nil {
		next.models = map[string]*served{}
	}
	if !known {
		delete(next.models, name)
		return next
	}
	s := &served{versions: versions}
	for v, m := range versions {
		if s.latest == nil || v > s.latest.Version() {
			s.latest = m
		}
	}
	next.models[name] = s
	return next
}

// Find returns the version of a model that is in service: the latest for infer.LatestVersion (-1). Errors: NotFound,
// with Triton's texts.
func (m *Manager) Find(name string, version int64) (*model.Model, error) {
	s := m.table.Load().models[name]
	switch {
	case s == nil:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name)
	case version < 0 && s.latest != nil:
		return s.latest, nil
	case s.latest == nil:
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' has no available versions", name)
	}
	if mod := s.versions[version]; mod != nil {
		return mod, nil
	}
	return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' version %d is not found", name, version)
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
