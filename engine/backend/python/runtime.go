package python

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"

	"nereid/engine/backend/python/pyrt"
)

// runtimeFiles are our Python modules, in a folder that has their hash in its name.
type runtimeFiles struct {
	folder string
	mu     sync.Mutex
	main   string // guarded by mu; "": not unpacked yet
}

// unpack writes the modules, unless they are there, and returns the path of the one to run.
func (f *runtimeFiles) unpack() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.main != "" {
		return f.main, nil
	}
	entries, err := pyrt.Files.ReadDir(".")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	texts := map[string][]byte{}
	for _, e := range entries {
		text, err := pyrt.Files.ReadFile(e.Name())
		if err != nil {
			return "", err
		}
		texts[e.Name()] = text
		sum.Write([]byte(e.Name() + "\x00"))
		sum.Write(text)
	}
	folder := filepath.Join(f.folder, hex.EncodeToString(sum.Sum(nil))[:16])
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	for name, text := range texts {
		if err := writeWhole(filepath.Join(folder, name), text); err != nil {
			return "", err
		}
	}
	f.main = filepath.Join(folder, pyrt.Main)
	return f.main, nil
}

// writeWhole writes a file unless it has that content, so that nobody ever sees half of it.
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
