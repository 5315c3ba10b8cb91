package catalog

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
)

// Options of a Catalog.
type Options struct {
	Engine *engine.Engine
	// Repositories are absolute paths, or addresses of remote repositories.
	Repositories []string
	// Namespaces: models are known by their repository and name; see repo.Key.
	Namespaces bool
	// ConfigName: configs/<ConfigName>.pbtxt of a model counts in place of config.pbtxt, where there is one.
	ConfigName string
	// Recent returns the last minute of a version.
	Recent func(model string, version int64) api.Recent
	// Installing reports whether packages for a model are being installed; nil: they never are.
	Installing func(model string) bool
}

// Catalog finds models. It is safe for concurrent use.
type Catalog struct {
	Options
	locks   modelLocks
	changes chan struct{}
}

// New makes a Catalog.
func New(o Options) *Catalog {
	return &Catalog{Options: o, changes: make(chan struct{}, 1)}
}

// Changed notes that the state of some model may have changed. It does not wait.
func (c *Catalog) Changed() {
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// Changes receives a value after calls of Changed. Several calls may give one value.
func (c *Catalog) Changes() <-chan struct{} { return c.changes }

// Lock locks a model by name until unlock is called. Lock order: models in the order of their names, then an import.
func (c *Catalog) Lock(name string) (unlock func()) { return c.locks.lock(name) }

// All returns all models, by name.
func (c *Catalog) All() []api.Model {
	out := []api.Model{}
	for _, name := range slices.Sorted(maps.Keys(c.names())) {
		if m, err := c.Find(name); err == nil { // otherwise it was removed since
			out = append(out, c.View(m))
		}
	}
	return out
}

// Find finds a model by name. A model that is neither in the engine nor in a repository is not_found. One that the
// engine still serves although its folder is gone has no Folder.
func (c *Catalog) Find(name string) (Model, error) {
	namespace, plain := repo.Split(name)
	inNamespace := func(root string) bool { return c.namespace(root) == namespace }
	if namespace != "" && !slices.ContainsFunc(c.Repositories, inNamespace) {
		plain = name
	}
	if err := repo.CheckName(plain); err != nil {
		return Model{}, err
	}
	st, known := c.Engine.Model(name)
	st.Name = name
	m := Model{Name: name, Status: st}
	if Remote(st.Repository) {
		err := c.findCopy(&m)
		return m, err
	}
	if err := c.findFolder(&m); err != nil {
		return m, err
	}
	if m.Folder == "" && !(known && (inUse(st) || slices.ContainsFunc(c.Repositories, Remote))) {
		return m, rest.Errorf(api.CodeNotFound, "there is no model %q in the repositories (%s)",
			name, strings.Join(c.Repositories, ", "))
	}
	return m, nil
}

// FindWithFolder is Find for a model that must have a folder.
func (c *Catalog) FindWithFolder(name string) (Model, error) {
	m, err := c.Find(name)
	if err == nil && m.Folder == "" {
		err = rest.Errorf(api.CodeNotFound, "model %q has no folder in a repository", name)
	}
	return m, err
}

// KeyIn returns the name by which the engine knows a model of a repository.
func (c *Catalog) KeyIn(root, name string) string { return repo.Key(c.namespace(root), name) }

// Composing returns the name by which the engine knows a composing model of an ensemble, given its folder's name.
func (c *Catalog) Composing(ensemble, name string) string {
	if namespace, plain := repo.Split(ensemble); namespace != "" && c.Namespaces {
		if name == plain {
			return ensemble
		}
		if key := repo.Key(namespace, name); c.names()[key] {
			return key
		}
	}
	return name
}

// Remote reports whether a repository is an address and not a folder of this machine.
func Remote(repository string) bool { return strings.Contains(repository, "://") }

// namespace is the part of a model's name that says its repository, "" without namespaces.
func (c *Catalog) namespace(root string) string {
	if !c.Namespaces {
		return ""
	}
	return repo.Namespace(root)
}

// inUse reports whether the engine has a version of the model in service, loading or unloading.
func inUse(st lifecycle.ModelStatus) bool {
	return slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool {
		return v.State != lifecycle.Unavailable
	})
}

// findFolder finds a model's folder: in the repository where the engine found it, or else in the first that has it.
func (c *Catalog) findFolder(m *Model) error {
	namespace, plain := repo.Split(m.Name)
	roots := slices.DeleteFunc(slices.Clone(c.Repositories), func(root string) bool {
		return Remote(root) || namespace != "" && namespace != c.namespace(root)
	})
	if known := filepath.Dir(m.Status.Folder); slices.Contains(roots, known) {
		roots = slices.Insert(roots, 0, known)
	}
	for _, root := range roots {
		folder := filepath.Join(root, plain)
		if isFolder(folder) {
			m.Repository, m.Folder, m.ConfigPath = root, folder, repo.ConfigPath(folder, c.ConfigName)
			return m.readConfig()
		}
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// names are the models that the engine knows or that are in a repository.
func (c *Catalog) names() map[string]bool {
	all := map[string]bool{}
	for _, st := range c.Engine.Models() {
		all[st.Name] = true
	}
	for _, root := range c.Repositories {
		if Remote(root) {
			continue // the engine knows what is in it
		}
		entries, _ := os.ReadDir(root) // GET /api/server reports a repository that cannot be read
		for _, e := range entries {
			if repo.Ignored(e.Name()) || repo.CheckName(e.Name()) != nil {
				continue
			}
			if isFolder(filepath.Join(root, e.Name())) {
				all[c.KeyIn(root, e.Name())] = true
			}
		}
	}
	return all
}
