package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"nereid/app/durable"
)

// partSuffix is the end of the name of a file that is not complete.
const partSuffix = ".part"

// files is a folder with the files of models, by their SHA-256. Its methods are safe for concurrent use.
type files struct {
	dir string

	mu    sync.Mutex
	locks map[string]*sync.Mutex // held while a file is pulled, by its digest
}

func (f *files) path(digest string) string { return filepath.Join(f.dir, digest) }
func (f *files) part(digest string) string { return f.path(digest) + partSuffix }

// has reports whether a file is there and complete.
func (f *files) has(file File) bool {
	info, err := os.Lstat(f.path(file.SHA256))
	return err == nil && info.Mode().IsRegular() && info.Size() == file.Size
}

// lock locks a file by its digest.
func (f *files) lock(digest string) (unlock func()) {
	f.mu.Lock()
	if f.locks == nil {
		f.locks = map[string]*sync.Mutex{}
	}
	l := f.locks[digest]
	if l == nil {
		l = new(sync.Mutex)
		f.locks[digest] = l
	}
	f.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// digests lists the complete files; none, if the folder cannot be read.
func (f *files) digests() []string {
	digests := []string{}
	entries, _ := os.ReadDir(f.dir)
	for _, e := range entries {
		if sha256Hex.MatchString(e.Name()) {
			digests = append(digests, e.Name())
		}
	}
	return digests
}

// prune removes the files that no desired model has. Models and the trash have separate links.
func (f *files) prune(d Desired) error {
	needed := map[string]bool{}
	for _, m := range d.Models {
		for _, file := range m.Files {
			needed[file.SHA256] = true
		}
	}
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !needed[strings.TrimSuffix(e.Name(), partSuffix)] {
			err = errors.Join(err, os.Remove(f.path(e.Name())))
		}
	}
	return err
}

// keep gives a complete file its name. It is read-only, because models and nodes share it.
func keep(part, path string) error {
	f, err := os.Open(part)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Chmod(0o400), f.Close()); err != nil {
		return err
	}
	return durable.Rename(part, path)
}
