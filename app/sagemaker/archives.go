// Package sagemaker serves the models of Amazon SageMaker's multi-model archives.
package sagemaker

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
	"nereid/engine/infer"
	"nereid/engine/status"
)

// Root is where SageMaker unpacks the archives of models: <root>/<hash>/model holds a model folder, or is one.
const Root = "/opt/ml/models"

var (
	archivePath = regexp.MustCompile(`^/[0-9A-Za-z._]+/model(/[0-9A-Za-z._]+)?$`)
	archiveName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,254}$`)
)

// loader is what Archives needs of the engine.
type loader interface {
	LoadModel(ctx context.Context, name string, p engine.LoadParameters) error
	UnloadModel(ctx context.Context, name string, dependents bool) error
	ModelReady(name string, version int64) (bool, error)
}

// Archives serves the models of SageMaker's archives. Each model is a link in a separate model repository. Its methods
// may be called concurrently.
type Archives struct {
	engine     loader
	root       string // Root
	repository string // the folder of links

	mu     sync.Mutex
	loaded []compat.Archive  // sorted by name; guarded by mu
	busy   map[string]bool   // names that are being loaded or unloaded; guarded by mu
	parts  map[string][]part // what was loaded, by the name of the archive; guarded by mu
}

var _ compat.Archives = (*Archives)(nil)

// NewArchives returns the archives below root. repository is an empty folder, for links.
func NewArchives(e loader, root, repository string) *Archives {
	return &Archives{engine: e, root: root, repository: repository, busy: map[string]bool{}, parts: map[string][]part{}}
}

// Loaded lists the models.
func (a *Archives) Loaded() []compat.Archive {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.loaded)
}

func (a *Archives) find(name string) (int, bool) {
	return slices.BinarySearchFunc(a.loaded, name, func(l compat.Archive, n string) int {
		return strings.Compare(l.Name, n)
	})
}

// begin reserves a name for a change. there reports whether it is loaded.
func (a *Archives) begin(name string) (there bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[name] {
		return false, status.Errorf(status.AlreadyExists, "model '%s' is being loaded or unloaded", name)
	}
	a.busy[name] = true
	_, there = a.find(name)
	return there, nil
}

func (a *Archives) end(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, name)
}

// Load links the model folders of an archive into the repository and loads them; see modelsOf.
func (a *Archives) Load(ctx context.Context, name, url string) error {
	if !archiveName.MatchString(name) {
		return status.Errorf(status.InvalidArg, "model_name %q is not a name of letters, digits, dots, dashes and "+
			"underscores", name)
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
	parts, err := modelsOf(name, folder)
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
	a.loaded = slices.Insert(a.loaded, i, compat.Archive{Name: name, URL: a.shownURL(url)})
	a.parts[name] = parts
	return nil
}

// loadPart links a model folder into the repository and loads it.
func (a *Archives) loadPart(ctx context.Context, p part) error {
	link := filepath.Join(a.repository, p.name)
	if err := os.Symlink(p.folder, link); err != nil {
		return status.Errorf(status.Internal, "cannot link the archive's model: %w", err)
	}
	if err := a.engine.LoadModel(ctx, p.name, p.load); err != nil {
		if ready, _ := a.engine.ModelReady(p.name, infer.LatestVersion); !ready {
			// A model that is to be served and cannot be would keep the server from being ready.
			err = errors.Join(err, a.engine.UnloadModel(context.WithoutCancel(ctx), p.name, false))
		}
		return errors.Join(err, os.Remove(link))
	}
	return nil
}

// drop unloads models, the last one first, and removes their links. rest are those that it could not unload.
func (a *Archives) drop(ctx context.Context, parts []part) (rest []part, err error) {
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

// shownURL returns the URL of a loaded archive in lists. As in Triton, it is the folder of the hash if url is the
// folder of one model, and url if it is a folder of models.
func (a *Archives) shownURL(url string) string {
	if _, err := os.Stat(filepath.Join(url, "config.pbtxt")); err != nil {
		return url
	}
	hash, _, _ := strings.Cut(strings.TrimPrefix(url, a.root+"/"), "/")
	return a.root + "/" + hash
}

// folderOf checks the URL of an archive and returns its folder.
func (a *Archives) folderOf(url string) (string, error) {
	below, ok := strings.CutPrefix(url, a.root)
	if !ok || !archivePath.MatchString(below) || slices.Contains(strings.Split(below, "/"), "..") {
		return "", status.Errorf(status.InvalidArg,
			"Invalid \"url\" '%s': expected a path of the form %s/<hash>/model[/<subdir>]", url, a.root)
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

// Unload unloads a model and those of its steps, and removes their links.
func (a *Archives) Unload(ctx context.Context, name string) error {
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
