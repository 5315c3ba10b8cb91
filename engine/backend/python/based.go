package python

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/backend/python/pyrt"
	"nereid/engine/status"
)

// based is a python-based backend: one model.py for many models, which have only data files.
type based struct {
	*Backend
	name string
	file string // its model.py; "": it is one of the server's own backends
}

var (
	_ backend.Backend         = (*based)(nil)
	_ backend.ConfigCompleter = (*based)(nil)
)

// Based returns the python-based backends: the folders with a model.py in a backend directory, as in Triton's
// --backend-directory ("": none), and the server's own ones with other names. They can be used until b is closed.
func (b *Backend) Based(directory string) ([]backend.Backend, error) {
	files := map[string]string{}
	ours, err := fs.ReadDir(pyrt.Backends, pyrt.BackendsFolder)
	if err != nil {
		return nil, err
	}
	for _, e := range ours {
		files[e.Name()] = ""
	}
	var entries []os.DirEntry
	if directory != "" {
		if entries, err = os.ReadDir(directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, e := range entries {
		file := filepath.Join(directory, e.Name(), "model.py")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && e.Name() != b.Name() {
			files[e.Name()] = file
		}
	}
	var all []backend.Backend
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, &based{Backend: b, name: name, file: files[name]})
	}
	return all, nil
}

// Traits implements backend.Backend. Unlike a model's own code, such a backend has batch inputs and states in Triton.
func (b *based) Traits() backend.Traits {
	traits := b.Backend.Traits()
	traits.IgnoresExtras = false
	return traits
}

// File returns the backend's model.py in the backend directory, "" if it is one of the server's.
func (b *based) File() string { return b.file }

// path returns the path of the backend's model.py. Those of the server are unpacked first.
func (b *based) path() (string, error) {
	if b.file != "" {
		return b.file, nil
	}
	main, err := b.runtime.unpack()
	if err != nil {
		return "", status.Errorf(status.Internal, "the Python modules of the server cannot be unpacked: %w", err)
	}
	return filepath.Join(filepath.Dir(main), pyrt.BackendsFolder, b.name, "model.py"), nil
}

// Name returns the folder's name.
func (b *based) Name() string { return b.name }

// Load does not start a process; see Backend.Load.
func (b *based) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	file, err := b.path()
	if err != nil {
		return nil, err
	}
	return b.load(ctx, s, file, b.name)
}

// CompleteConfig runs the backend's auto_complete_config, if it has one.
func (b *based) CompleteConfig(ctx context.Context, s backend.Spec) error {
	file, err := b.path()
	if err != nil {
		return err
	}
	return b.complete(ctx, s, file, b.name)
}
