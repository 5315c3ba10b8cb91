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
	"nereid/engine/system/replace"
)

// runtimeFiles is the Python modules of package pyrt. They are unpacked into a subfolder whose name is their hash.
type runtimeFiles struct {
	folder string
	mu     sync.Mutex
}

// unpack writes the modules, except those that are there already, and returns the path of the main one. It is safe for
// concurrent use, also by several processes.
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
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := replace.File(path, bytes.NewReader(text), 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, pyrt.Main), nil
}
