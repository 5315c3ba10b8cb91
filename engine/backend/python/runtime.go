package python

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"nereid/engine/backend/python/pyrt"
)

// runtimeFiles is the Python modules of package pyrt, unpacked into a folder whose name has their hash.
type runtimeFiles struct {
	folder string
	mu     sync.Mutex
}

// unpack writes the modules, unless they exist, and returns the path of the main one. Safe for concurrent use.
func (f *runtimeFiles) unpack() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := sha256.New()
	texts := map[string][]byte{}
	for _, files := range []embed.FS{pyrt.Files, pyrt.Backends} {
		err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := files.ReadFile(name)
			texts[name] = text
			sum.Write([]byte(name + "\x00"))
			sum.Write(text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	folder := filepath.Join(f.folder, hex.EncodeToString(sum.Sum(nil))[:16])
	for name, text := range texts {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := writeWhole(path, text); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, pyrt.Main), nil
}

// writeWhole writes a file atomically, unless it has that content.
func writeWhole(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if cerr := t.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name()) // err is why
	}
	return err
}
