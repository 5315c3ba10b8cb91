package capture

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const ext = ".json"

// folders are the files of all models, in a folder for each. They are not safe for concurrent use.
type folders struct {
	root  string
	known map[string]*folder // by model
}

// folder has the files of one model.
type folder struct {
	path  string
	files []file // by ID
	size  int64
}

type file struct {
	id, size int64
}

// pathOf returns the folder of a model. Any name of a model gives a valid one.
func (f *folders) pathOf(model string) string {
	return filepath.Join(f.root, fmt.Sprintf("%x", sha256.Sum256([]byte(model)))[:32])
}

// of returns the folder of a model, which need not exist.
func (f *folders) of(model string) (*folder, error) {
	if d := f.known[model]; d != nil {
		return d, nil
	}
	d := &folder{path: f.pathOf(model)}
	entries, err := os.ReadDir(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		id, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ext), 10, 64)
		info, ierr := e.Info()
		if err == nil && ierr == nil {
			d.files = append(d.files, file{id, info.Size()})
			d.size += info.Size()
		}
	}
	d.sort()
	if f.known == nil {
		f.known = map[string]*folder{}
	}
	f.known[model] = d
	return d, nil
}

// last returns the highest ID of all files, 0 if there are none.
func (f *folders) last() (id int64, err error) {
	found, err := fs.Glob(os.DirFS(f.root), "*/*"+ext)
	for _, path := range found {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ext), 10, 64)
		if err == nil {
			id = max(id, n)
		}
	}
	return id, err
}

func (d *folder) sort() {
	slices.SortFunc(d.files, func(a, b file) int { return cmp.Compare(a.id, b.id) })
}

func (d *folder) file(id int64) string { return filepath.Join(d.path, strconv.FormatInt(id, 10)+ext) }

// add writes a file and removes the oldest ones above the budget first.
func (f *folders) add(model string, id int64, text []byte, budget int64) error {
	size := int64(len(text))
	if size > budget {
		return fmt.Errorf("the contents of a request need %d bytes and the budget is %d; raise the budget, or capture "+
			"fewer bytes of a request", size, budget)
	}
	d, err := f.of(model)
	if err != nil {
		return err
	}
	for len(d.files) > 0 && d.size+size > budget {
		if err := os.Remove(d.file(d.files[0].id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.size -= d.files[0].size
		d.files = d.files[1:]
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(d.file(id), text, 0o600); err != nil {
		return errors.Join(err, os.Remove(d.file(id)))
	}
	d.files = append(d.files, file{id, size})
	d.size += size
	d.sort()
	return nil
}

func (f *folders) read(model string, id int64) ([]byte, error) {
	return os.ReadFile(filepath.Join(f.pathOf(model), strconv.FormatInt(id, 10)+ext))
}

// exists reports whether a model has a folder.
func (f *folders) exists(model string) bool {
	_, err := os.Stat(f.pathOf(model))
	return err == nil
}

// has reports whether there is a file. It remembers nothing of a model without files: clients choose names.
func (f *folders) has(model string, id int64) bool {
	if f.known[model] == nil && !f.exists(model) {
		return false
	}
	d, err := f.of(model)
	if err != nil {
		return false
	}
	_, found := slices.BinarySearchFunc(d.files, id, func(a file, id int64) int { return cmp.Compare(a.id, id) })
	return found
}

// remove removes the files of a model.
func (f *folders) remove(model string) error {
	delete(f.known, model)
	return os.RemoveAll(f.pathOf(model))
}
