package lifecycle

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// Register adds a model repository. folders, which may be nil, gives models other names than their folders': the folder by
// the model's name, one name a folder. Nothing is loaded. Errors, with Triton's words: AlreadyExists for a repository or a
// name that is registered already, InvalidArg for names that cannot be and for a folder that is not there.
func (m *Manager) Register(path string, folders map[string]string) error {
	path = filepath.Clean(path)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return status.Errorf(status.InvalidArg, "failed to register '%s', repository not found", path)
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		folder := folders[name]
		if err := errors.Join(repo.CheckName(name), repo.CheckName(folder)); err != nil {
			return status.Errorf(status.InvalidArg, "failed to register '%s': %w", path, err)
		}
		if other, twice := names[folder]; twice {
			return status.Errorf(status.InvalidArg, "failed to register '%s': folder '%s' is given two names, '%s' and '%s'", path, folder, other, name)
		}
		names[folder] = name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.roots, func(r string) bool { return filepath.Clean(r) == path }) {
		return status.Errorf(status.AlreadyExists, "model repository '%s' has already been registered", path)
	}
	for _, taken := range m.names {
		for _, name := range taken {
			if _, conflict := folders[name]; conflict {
				return status.Errorf(status.AlreadyExists, "failed to register '%s', there is a conflicting mapping for '%s'", name, name)
			}
		}
	}
	m.roots = append(slices.Clone(m.roots), path)
	m.names = maps.Clone(m.names)
	if m.names == nil {
		m.names = map[string]map[string]string{}
	}
	m.names[path] = names
	return nil
}

// Unregister takes a model repository away again. What was loaded from it serves on until it is unloaded. Errors:
// InvalidArg, with Triton's words.
func (m *Manager) Unregister(path string) error {
	path = filepath.Clean(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.roots, func(r string) bool { return filepath.Clean(r) == path })
	if at < 0 {
		return status.Errorf(status.InvalidArg, "failed to unregister '%s', repository not found", path)
	}
	m.roots = slices.Delete(slices.Clone(m.roots), at, at+1)
	m.names = maps.Clone(m.names)
	delete(m.names, path)
	return nil
}
