package lifecycle

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// With Options.Namespaces models are known by the keys of package repo, their repository and their name. Requests name models
// as ever: a name that one model has means that one, a name that several have is refused with Triton's text. A key is taken in
// the place of a name everywhere, which Triton has no way for.

// names says what plain names mean in a table with namespaces.
type names map[string]meaning

// meaning is what one name stands for: the models that are to be served, or where there is none, those that are known.
type meaning struct {
	one    *served // nil: none or several
	key    string  // of one
	wanted int
	known  int
}

// namesOf reads what the plain names of a table mean.
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

// find returns what a table has of a model by its name or key, and the key; nil if it has nothing. Errors: InvalidArg for a
// name that several models have.
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

// ambiguous has Triton's words.
func ambiguous(name string, n int) error {
	return status.Errorf(status.InvalidArg, "There are %d identifiers of model '%s' in global map, model namespace must be provided to resolve ambiguity.", n, name)
}

// key returns the key of a model that is known by its name or key; what nobody knows is its own.
func (m *Manager) key(name string) (string, error) {
	if !m.o.Namespaces {
		return name, nil
	}
	m.mu.Lock()
	_, known := m.entries[name]
	m.mu.Unlock()
	if known {
		return name, nil
	}
	s, key, err := m.table.Load().find(name)
	if s == nil && err == nil { // nothing of it was ever to be served
		switch all := m.loaded(name); len(all) {
		case 0:
		case 1:
			key = all[0]
		default:
			err = ambiguous(name, len(all))
		}
	}
	return key, err
}

// checkName is repo.CheckName, which lets keys pass that a repository may have.
func (m *Manager) checkName(name string) error {
	namespace, plain := repo.Split(name)
	if m.o.Namespaces && slices.ContainsFunc(m.scanOptions().Roots, func(root string) bool { return repo.Namespace(root) == namespace }) {
		name = plain
	}
	return repo.CheckName(name)
}

// keys returns the keys that a load of a name is about: those of the repositories' models of that name, or else the name.
func (m *Manager) keys(name string) []string {
	if !m.o.Namespaces {
		return []string{name}
	}
	m.mu.Lock()
	_, known := m.entries[name]
	m.mu.Unlock()
	if namespace, _ := repo.Split(name); known || namespace != "" {
		return []string{name}
	}
	o := m.scanOptions()
	o.Only = name
	found, _ := repo.Scan(o)
	if len(found) == 0 {
		return []string{name} // the load says what is wrong
	}
	return slices.Sorted(maps.Keys(found))
}

// loaded returns the keys of the models of a name that are known.
func (m *Manager) loaded(name string) []string {
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

// each runs do for all keys and joins what went wrong, with the first one's code.
func each(keys []string, do func(key string) error) error {
	var all []error
	for _, key := range keys {
		if err := do(key); err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return status.Errorf(status.CodeOf(all[0]), "%w", errors.Join(all...))
}

// link sets the namespace of every step of an ensemble (ensemble.Link). Errors: InvalidArg, with Triton's words, for models that
// are not there and for names that several other repositories have.
func (m *Manager) link(src *repo.Model, cfg *inferencepb.ModelConfig) error {
	own, _ := repo.Split(src.Key) // not of src.Root: its files may have come with a request
	var missing []string
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		name := s.GetModelName()
		if !ensemble.Link(s, own, m.namespacesOf(name)) && m.o.Namespaces && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return status.Errorf(status.InvalidArg, "ensemble %s contains models that are not available or ambiguous: %s", src.Key, strings.Join(missing, ", "))
	}
	return nil
}

// namespacesOf returns the namespaces that have a model of that name; none without Options.Namespaces.
func (m *Manager) namespacesOf(name string) (all []string) {
	if !m.o.Namespaces || repo.CheckName(name) != nil {
		return nil
	}
	o := m.scanOptions()
	o.Only = name
	found, _ := repo.Scan(o)
	for key := range found {
		namespace, _ := repo.Split(key)
		all = append(all, namespace)
	}
	return all
}

// concerns reports whether an ensemble is to be looked at when a model has changed: a step runs it, or may be to run it now.
func concerns(cfg *inferencepb.ModelConfig, key string) bool {
	_, name := repo.Split(key)
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		if s.GetModelName() == name {
			return true
		}
	}
	return false
}

// moved reports whether a step of an ensemble is to run another repository's model than it does. e.op is held.
func (m *Manager) moved(e *entry) bool {
	m.mu.Lock()
	src, cfg, over := e.src, e.cfg, e.override
	m.mu.Unlock()
	if !m.o.Namespaces || src == nil || len(cfg.GetEnsembleScheduling().GetStep()) == 0 {
		return false
	}
	written, _, err := m.readConfig(src, over, &plan{})
	if err != nil {
		return false
	}
	_ = m.link(src, written) // what is missing the models say
	return !slices.Equal(ensemble.Parts(written), ensemble.Parts(cfg))
}
