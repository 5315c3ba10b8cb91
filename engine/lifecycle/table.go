package lifecycle

import (
	"maps"
	"slices"

	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// table maps names to what is in service. It does not change once stored.
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
	// former are the versions of a model that is in no repository any more. Triton still knows it as one without
	// available versions.
	former []int64
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
	if old := t.models[name]; old != nil && s.newest != 0 {
		for v, m := range old.versions {
			if m != nil && versions[v] != m && m.Sequenced() {
				s.lingering = append(s.lingering, m)
			}
		}
		s.lingering = append(s.lingering, old.lingering...)
	}
	return next.put(name, s)
}

// withFormer returns a table with a model that left the repositories. With namespaces the table forgets it: it must not
// count among the models of its name.
func (t *table) withFormer(name string, versions []int64) *table {
	next := t.without(name)
	if t.names == nil && len(versions) > 0 {
		next.models[name] = &served{former: versions}
	}
	return next
}

// put adds a model to a table that is not stored yet.
func (t *table) put(name string, s *served) *table {
	t.models[name] = s
	if t.names != nil {
		t.names = namesOf(t.models)
	}
	return t
}

// withoutLingering returns a table in which a model lingers no more.
func (t *table) withoutLingering(name string, m *model.Model) *table {
	if !t.lingers(name, m) {
		return t
	}
	s := *t.models[name]
	s.lingering = slices.DeleteFunc(slices.Clone(s.lingering), func(l *model.Model) bool { return l == m })
	return t.without(name).put(name, &s)
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

// With Options.Namespaces models are known by the keys of package repo: their repository and their name. Requests use
// plain names: a name that one model has means that one, a name that several have is refused with Triton's text. A key
// is accepted wherever a name is, for which Triton has no way.

// names resolves plain names in a table with namespaces.
type names map[string]meaning

// meaning is what one name stands for: the models that are to be served, or where there is none, those that are known.
type meaning struct {
	one    *served // nil: none or several
	key    string  // of one
	wanted int
	known  int
}

func namesOf(models map[string]*served) names {
	all := names{}
	for _, key := range slices.Sorted(maps.Keys(models)) {
		s := models[key]
		_, name := repo.Split(key)
		n := all[name]
		n.known++
		if s.wanted {
			n.wanted++
		}
		if s.wanted && n.wanted == 1 || n.wanted == 0 && n.known == 1 {
			n.one, n.key = s, key
		}
		if n.wanted > 1 || n.wanted == 0 && n.known > 1 {
			n.one, n.key = nil, ""
		}
		all[name] = n
	}
	return all
}

// find returns what a table has of a model by its name or key, and the key; nil if it has nothing. Errors: InvalidArg
// for a name that several models have.
func (t *table) find(name string) (s *served, key string, err error) {
	if s := t.models[name]; s != nil || t.names == nil {
		return s, name, nil
	}
	n := t.names[name]
	if n.one == nil && n.known > 1 {
		return nil, name, ambiguous(name, max(n.wanted, n.known))
	}
	if n.one == nil {
		return nil, name, nil
	}
	return n.one, n.key, nil
}

// ambiguous returns Triton's error for a name that several models have.
func ambiguous(name string, n int) error {
	return status.Errorf(status.InvalidArg,
		"There are %d identifiers of model '%s' in global map, model namespace must be provided to resolve ambiguity.",
		n, name)
}
