package console

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
)

// place is where a model lies.
type place struct {
	repository string
	folder     string
	config     string // path of config.pbtxt, whether it exists or not
	text       *string
	copied     bool // folder is the copy of a model in a remote repository
}

// writable says whether this server may change the model's folder: not a copy, which the next load would put right again.
func (p place) writable() bool { return !p.copied && writable(p.folder) }

// remote reports whether a repository is no folder of this machine.
func remote(repository string) bool { return strings.Contains(repository, "://") }

// locate finds a model by name, in the engine or in a repository. A model that is in neither is not_found; one that the
// engine still serves while its folder is gone has an empty place.
func (c *Console) locate(name string) (lifecycle.ModelStatus, place, error) {
	namespace, plain := repo.Split(name)
	if namespace != "" && !slices.ContainsFunc(c.o.Repositories, func(root string) bool { return c.namespace(root) == namespace }) {
		plain = name
	}
	if err := repo.CheckName(plain); err != nil {
		return lifecycle.ModelStatus{}, place{}, err
	}
	st, known := c.o.Engine.Model(name)
	st.Name = name
	if remote(st.Repository) {
		p, err := copyOf(st)
		return st, p, err
	}
	p, err := c.findFolder(name, st.Folder)
	if err != nil {
		return st, place{}, err
	}
	if p.folder == "" && !(known && (alive(st) || slices.ContainsFunc(c.o.Repositories, remote))) {
		return st, place{}, fail(api.CodeNotFound, "there is no model %q in the repositories (%s)", name, strings.Join(c.o.Repositories, ", "))
	}
	return st, p, nil
}

// namespace is what tells a repository's models from others of their names, "" if nothing does.
func (c *Console) namespace(root string) string {
	if !c.o.Namespaces {
		return ""
	}
	return repo.Namespace(root)
}

// copyOf is the place of a model in a remote repository. Without a copy there is no folder.
func copyOf(st lifecycle.ModelStatus) (place, error) {
	p := place{repository: st.Repository, config: filepath.Join(st.Folder, repo.ConfigName), copied: true}
	if info, err := os.Stat(st.Folder); err != nil || !info.IsDir() {
		return p, nil
	}
	p.folder = st.Folder
	var err error
	p.text, err = readText(p.config)
	return p, err
}

// alive says whether the engine has anything of a model in service, or on the way in or out.
func alive(st lifecycle.ModelStatus) bool {
	return slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool { return v.State != lifecycle.Unavailable })
}

// findFolder looks for a model's folder: hint, if it is below a repository, else the first repository that has it.
func (c *Console) findFolder(name, hint string) (place, error) {
	for _, root := range c.o.Repositories {
		if remote(root) {
			continue
		}
		namespace, plain := repo.Split(name)
		if namespace != "" && namespace != c.namespace(root) {
			continue
		}
		folder := filepath.Join(root, plain)
		if hint != "" && hint != folder && filepath.Dir(hint) != root {
			continue
		}
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			continue
		}
		p := place{repository: root, folder: folder, config: filepath.Join(folder, repo.ConfigName)}
		text, err := readText(p.config)
		if err != nil {
			return place{}, err
		}
		p.text = text
		return p, nil
	}
	if hint != "" { // the engine knows a folder that is gone; another repository may have the model
		return c.findFolder(name, "")
	}
	return place{}, nil
}

// readText reads a configuration file; nil if there is none.
func readText(path string) (*string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fail(api.CodeInvalid, "%s is not a regular file", path)
	case info.Size() > maxJSONBody:
		return nil, fail(api.CodeTooLarge, "%s has %d bytes, more than the editor takes", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

// names are the models that the engine knows or that lie in a repository.
func (c *Console) names() map[string]bool {
	all := map[string]bool{}
	for _, st := range c.o.Engine.Models() {
		all[st.Name] = true
	}
	for _, root := range c.o.Repositories {
		if remote(root) {
			continue // the engine knows what is in it
		}
		entries, _ := os.ReadDir(root) // a repository that cannot be read is in GET /api/server
		for _, e := range entries {
			if repo.Ignored(e.Name()) || repo.CheckName(e.Name()) != nil {
				continue
			}
			if info, err := os.Stat(filepath.Join(root, e.Name())); err == nil && info.IsDir() {
				all[repo.Key(c.namespace(root), e.Name())] = true
			}
		}
	}
	return all
}
