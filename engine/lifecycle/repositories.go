package lifecycle

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Repositories are the model repositories that models are loaded from. They are safe for concurrent use.
type Repositories struct {
	fixed repo.Options // without Roots and Names

	mu sync.Mutex
	// The repositories, and the models' names in those that were registered with others than their folders'. Both are
	// replaced, not changed. Guarded by mu.
	roots []string
	names map[string]map[string][]string
}

func newRepositories(o *Options) *Repositories {
	return &Repositories{
		fixed: repo.Options{
			Namespaces: o.Namespaces, ConfigName: o.ConfigName, Remotes: o.Remotes, Preferred: o.Preferred,
			Yielding: o.Yielding,
		},
		roots: o.Repositories,
	}
}

// scanOptions returns the options of a scan of all repositories.
func (r *Repositories) scanOptions() repo.Options {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.fixed
	o.Roots, o.Names = r.roots, r.names
	return o
}

// scan reads all repositories. Errors: Internal if one cannot be read.
func (r *Repositories) scan() (map[string]*repo.Model, error) {
	found, unread := repo.Scan(r.scanOptions())
	return found, unreadError(unread)
}

// named returns the models with a name, by their keys; what cannot be read is left out.
func (r *Repositories) named(name string) map[string]*repo.Model {
	o := r.scanOptions()
	o.Only = name
	found, _ := repo.Scan(o)
	return found
}

// find looks for a model by its key.
func (r *Repositories) find(key string) (*repo.Model, error) {
	o := r.scanOptions()
	o.Within, o.Only = repo.Split(key)
	found, unread := repo.Scan(o)
	if src := found[key]; src != nil {
		return src, nil
	}
	if err := unreadError(unread); err != nil {
		return nil, err
	}
	return nil, status.Errorf(status.NotFound, "model '%s' is in none of the model repositories", key)
}

// unreadError joins the reasons why repositories could not be read; nil if there are none.
func unreadError(unread map[string]error) error {
	var all []error
	for _, root := range slices.Sorted(maps.Keys(unread)) {
		all = append(all, unread[root])
	}
	if err := errors.Join(all...); err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	return nil
}

// checkName is repo.CheckName, but accepts the key of a model in one of the repositories.
func (r *Repositories) checkName(name string) error {
	namespace, plain := repo.Split(name)
	own := func(root string) bool { return repo.Namespace(root) == namespace }
	if r.fixed.Namespaces && slices.ContainsFunc(r.scanOptions().Roots, own) {
		name = plain
	}
	return repo.CheckName(name)
}

// link sets the namespace of every step of an ensemble (ensemble.Link). Errors: InvalidArg, with Triton's text, for
// models that do not exist and for names that several other repositories have.
func (r *Repositories) link(src *repo.Model, cfg *inferencepb.ModelConfig) error {
	own, _ := repo.Split(src.Key) // not of src.Root: its files may have come with a request
	var missing []string
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		name := s.GetModelName()
		if given := s.GetModelNamespace(); given != "" {
			s.ModelNamespace = r.rootOf(given)
		}
		if !ensemble.Link(s, own, r.namespacesOf(name)) && r.fixed.Namespaces && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return status.Errorf(status.InvalidArg, "ensemble %s contains models that are not available or ambiguous: %s",
			src.Key, strings.Join(missing, ", "))
	}
	return nil
}

// namespacesOf returns the namespaces that have a model of that name; none without Options.Namespaces.
func (r *Repositories) namespacesOf(name string) (all []string) {
	if !r.fixed.Namespaces || repo.CheckName(name) != nil {
		return nil
	}
	for key := range r.named(name) {
		namespace, _ := repo.Split(key)
		all = append(all, namespace)
	}
	return all
}

// Register adds a model repository. folders, which may be nil, gives models other names than their folders': the folder
// by the model's name. They go before folders of these names in other repositories. Nothing is loaded. Errors, with
// Triton's texts and the path as given: AlreadyExists for a repository or a name that is registered already, InvalidArg
// for invalid names and for a folder that does not exist.
func (r *Repositories) Register(path string, folders map[string]string) error {
	root := absolute(path)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return status.Errorf(status.InvalidArg, "failed to register '%s', repository not found", path)
	}
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		folder := folders[name]
		if err := errors.Join(repo.CheckName(name), repo.CheckName(folder)); err != nil {
			return status.Errorf(status.InvalidArg, "failed to register '%s': %w", path, err)
		}
		names[folder] = append(names[folder], name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexOf(path) >= 0 {
		return status.Errorf(status.AlreadyExists, "model repository '%s' has already been registered", path)
	}
	for _, taken := range r.names {
		for _, name := range slices.Concat(slices.Collect(maps.Values(taken))...) {
			if _, conflict := folders[name]; conflict {
				return status.Errorf(status.AlreadyExists,
					"failed to register '%s', there is a conflicting mapping for '%s'", name, name)
			}
		}
	}
	r.roots = append(slices.Clone(r.roots), root)
	r.names = maps.Clone(r.names)
	if r.names == nil {
		r.names = map[string]map[string][]string{}
	}
	r.names[root] = names
	return nil
}

// Unregister removes a model repository. Models loaded from it stay in service until they are unloaded. Errors:
// InvalidArg, with Triton's text.
func (r *Repositories) Unregister(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.indexOf(path)
	if at < 0 {
		return status.Errorf(status.InvalidArg, "failed to unregister '%s', repository not found", path)
	}
	r.names = maps.Clone(r.names)
	delete(r.names, r.roots[at])
	r.roots = slices.Delete(slices.Clone(r.roots), at, at+1)
	return nil
}

// indexOf returns the index of a repository in roots, -1 if it is not there. mu is held.
func (r *Repositories) indexOf(path string) int {
	path = absolute(path)
	return slices.IndexFunc(r.roots, func(root string) bool { return absolute(root) == path })
}

// rootOf returns the root of the repository that has a path, relative or not, and the path itself if there is none.
func (r *Repositories) rootOf(path string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.indexOf(path); at >= 0 {
		return r.roots[at]
	}
	return path
}

// absolute returns the absolute path of a repository; an address stays as it is.
func absolute(path string) string {
	if folder, err := filepath.Abs(path); err == nil && !strings.Contains(path, "://") {
		return folder
	}
	return path
}
