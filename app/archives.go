package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nereid/engine"
	"nereid/engine/httpapi/compat"
	"nereid/engine/status"
)

// archiveRoot is where SageMaker unpacks the archives of models: <root>/<hash>/model holds a model folder, or is one.
const archiveRoot = "/opt/ml/models"

var (
	archivePath = regexp.MustCompile(`^/[0-9A-Za-z._]+/model(/[0-9A-Za-z._]+)?$`)
	archiveName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,254}$`)
)

// loader is what archives need of the engine.
type loader interface {
	LoadModel(ctx context.Context, name string, p engine.LoadParameters) error
	UnloadModel(ctx context.Context, name string, dependents bool) error
}

// archives serves the models of SageMaker's archives: each is a link in a model repository of their own.
type archives struct {
	engine     loader
	root       string // archiveRoot
	repository string // the folder of links

	mu     sync.Mutex
	loaded []compat.Archive  // sorted by name; guarded by mu
	busy   map[string]bool   // names that are being loaded or unloaded; guarded by mu
	parts  map[string][]part // by name, what was loaded for it; guarded by mu
}

var _ compat.Archives = (*archives)(nil)

func newArchives(e loader, root, repository string) *archives {
	return &archives{engine: e, root: root, repository: repository, busy: map[string]bool{}, parts: map[string][]part{}}
}

// Loaded lists the models.
func (a *archives) Loaded() []compat.Archive {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.loaded)
}

func (a *archives) find(name string) (int, bool) {
	return slices.BinarySearchFunc(a.loaded, name, func(l compat.Archive, n string) int { return strings.Compare(l.Name, n) })
}

// begin reserves a name for a change; there tells whether it is loaded.
func (a *archives) begin(name string) (there bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[name] {
		return false, status.Errorf(status.AlreadyExists, "model '%s' is being loaded or unloaded", name)
	}
	a.busy[name] = true
	_, there = a.find(name)
	return there, nil
}

func (a *archives) end(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, name)
}

// Load links the model folders of an archive into the repository and loads them: see archiveParts.
func (a *archives) Load(ctx context.Context, name, url string) error {
	if !archiveName.MatchString(name) {
		return status.Errorf(status.InvalidArg, "model_name %q is not a name of letters, digits, dots, dashes and underscores", name)
	}
	there, err := a.begin(name)
	if err != nil {
		return err
	}
	defer a.end(name)
	if there {
		return status.Errorf(status.AlreadyExists, "model '%s' is loaded already", name)
	}
	folder, err := a.folderOf(url)
	if err != nil {
		return err
	}
	parts, err := archiveParts(name, folder)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if err := a.loadPart(ctx, p); err != nil {
			_, left := a.drop(context.WithoutCancel(ctx), parts[:i])
			return errors.Join(err, left)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := a.find(name)
	a.loaded = slices.Insert(a.loaded, i, compat.Archive{Name: name, URL: url})
	a.parts[name] = parts
	return nil
}

// loadPart links a model folder into the repository and loads it.
func (a *archives) loadPart(ctx context.Context, p part) error {
	link := filepath.Join(a.repository, p.name)
	if err := os.Symlink(p.folder, link); err != nil {
		return status.Errorf(status.Internal, "cannot link the archive's model: %w", err)
	}
	if err := a.engine.LoadModel(ctx, p.name, p.load); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	return nil
}

// drop takes models out of service, the last one first, and removes their links. rest are those that stay, with why.
func (a *archives) drop(ctx context.Context, parts []part) (rest []part, err error) {
	var all []error
	for _, p := range slices.Backward(parts) {
		err := a.engine.UnloadModel(ctx, p.name, false)
		if err == nil {
			err = os.Remove(filepath.Join(a.repository, p.name))
		}
		if err != nil {
			all, rest = append(all, err), append(rest, p)
		}
	}
	slices.Reverse(rest)
	return rest, errors.Join(all...)
}

// folderOf checks an archive's address and returns its folder.
func (a *archives) folderOf(url string) (string, error) {
	below, ok := strings.CutPrefix(url, a.root)
	if !ok || !archivePath.MatchString(below) || slices.Contains(strings.Split(below, "/"), "..") {
		return "", status.Errorf(status.InvalidArg, "Invalid \"url\" '%s': expected a path of the form %s/<hash>/model[/<subdir>]", url, a.root)
	}
	folder, err := filepath.EvalSymlinks(url)
	if err != nil {
		return "", status.Errorf(status.InvalidArg, "the archive's folder cannot be read: %w", err)
	}
	if real, err := filepath.EvalSymlinks(a.root); err != nil || !strings.HasPrefix(folder, real+"/") {
		return "", status.Errorf(status.InvalidArg, "url '%s' leads out of %s", url, a.root)
	}
	return folder, nil
}

// Unload takes a model out of service, with those of its steps, and removes their links.
func (a *archives) Unload(ctx context.Context, name string) error {
	there, err := a.begin(name)
	if err != nil {
		return err
	}
	defer a.end(name)
	if !there {
		return status.Errorf(status.NotFound, "model '%s' is not loaded", name)
	}
	a.mu.Lock()
	parts := a.parts[name]
	a.mu.Unlock()
	rest, err := a.drop(ctx, parts)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parts[name] = rest; err != nil {
		return err
	}
	delete(a.parts, name)
	if i, ok := a.find(name); ok {
		a.loaded = slices.Delete(a.loaded, i, i+1)
	}
	return nil
}
