package staging

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits bound what an Area takes in. Zero fields get the defaults named with them.
type Limits struct {
	Files int   // files (default 10,000)
	Bytes int64 // bytes in all, unpacked (default 64 GiB)
	// Ratio of unpacked to packed bytes of an archive (default 200), once more than RatioFrom bytes (default 64 MiB)
	// are unpacked.
	Ratio     int64
	RatioFrom int64
}

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = 10_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 64 << 30
	}
	if l.Ratio <= 0 {
		l.Ratio = 200
	}
	if l.RatioFrom <= 0 {
		l.RatioFrom = 64 << 20
	}
	return l
}

// File is one file in an Area.
type File struct {
	Path string // relative, with slashes
	Size int64
	Mod  time.Time
}

// Area is a folder that takes in the files of one model. Put, Files and Bytes may be called from several goroutines at
// once, also during the other methods, which may not run at the same time as one another.
type Area struct {
	dir    string
	limits Limits

	mu    sync.Mutex // guards what follows
	root  *os.Root   // of dir; nil after Remove
	files map[string]int64
	fold  map[string]string // lower-case path of each file and folder → as it is
	bytes int64
	parts int // numbers the files that are being written
}

const (
	inFolder    = "in"    // what came in, as it came
	modelFolder = "model" // the arranged model
)

// NewArea makes the folder dir, which must not exist, and an Area in it.
func NewArea(dir string, l Limits) (*Area, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("staging folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("staging folder: %w", err)
	}
	a := &Area{dir: dir, limits: l.withDefaults(), root: root, files: map[string]int64{}, fold: map[string]string{}}
	return a, errors.Join(root.Mkdir(inFolder, 0o700))
}

// Remove deletes the Area and everything in it.
func (a *Area) Remove() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root != nil {
		a.root.Close()
		a.root = nil
	}
	return os.RemoveAll(a.dir)
}

// Bytes is how much the Area holds.
func (a *Area) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// Put stores a file under name. A file of that name is replaced. The file is there whole or not at all.
func (a *Area) Put(name string, r io.Reader) error {
	clean, err := CleanPath(name)
	if err != nil {
		return err
	}
	if clean == "" { // hidden: read it away, so that the sender is not cut off
		_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		return err
	}
	root, part, room, err := a.reserve(clean)
	if err != nil {
		return err
	}
	n, err := write(root, part, io.LimitReader(r, room+1))
	if err == nil && n > room {
		err = tooLarge("%q: the model has more than %d bytes; raise the limit, or copy the model into the repository by hand", clean, a.limits.Bytes)
	}
	if err == nil {
		err = a.place(part, clean, n)
	}
	if err != nil {
		a.discard(part)
	}
	return err
}

// reserve checks that a file may be added, and answers the name in root to write it to and how large it may be.
func (a *Area) reserve(clean string) (root *os.Root, part string, room int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root == nil {
		return nil, "", 0, &Error{Conflict, "the import was removed"}
	}
	if _, replaces := a.files[clean]; !replaces && len(a.files) >= a.limits.Files {
		return nil, "", 0, tooLarge("the model has more than %d files", a.limits.Files)
	}
	if err := a.clash(clean); err != nil {
		return nil, "", 0, err
	}
	a.parts++
	return a.root, fmt.Sprintf(".part-%d", a.parts), a.limits.Bytes - a.bytes, nil
}

// clash refuses a path that differs from another one only by case, or that is a file where another has a folder.
func (a *Area) clash(clean string) error {
	for p := clean; p != "."; p = path.Dir(p) {
		other, ok := a.fold[strings.ToLower(p)]
		if ok && other != p {
			return invalid("%q and %q differ only by upper and lower case; rename one", other, p)
		}
		_, isFile := a.files[p]
		if ok && isFile != (p == clean) {
			return invalid("%q is a file and a folder at once", p)
		}
	}
	return nil
}

func write(root *os.Root, part string, r io.Reader) (int64, error) {
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, r)
	return n, errors.Join(err, f.Close())
}

// place moves a written file to its name.
func (a *Area) place(part, clean string, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root == nil {
		return &Error{Conflict, "the import was removed"}
	}
	if err := a.clash(clean); err != nil { // again: another Put may have been quicker
		return err
	}
	if a.bytes+n-a.files[clean] > a.limits.Bytes {
		return tooLarge("the model has more than %d bytes", a.limits.Bytes)
	}
	to := path.Join(inFolder, clean)
	if err := a.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	if err := a.root.Rename(part, to); err != nil {
		return err
	}
	a.bytes += n - a.files[clean]
	a.files[clean] = n
	for p := clean; p != "."; p = path.Dir(p) {
		a.fold[strings.ToLower(p)] = p
	}
	return nil
}

func (a *Area) discard(part string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root != nil {
		_ = a.root.Remove(part) // the folder is removed as a whole in the end
	}
}

// CopyFrom takes in a file or a folder of this machine. Links that lead out of the folder, and anything that is not a
// regular file, are refused. Files that belong to a single ONNX file by name (model.onnx.data) come with it.
func (a *Area) CopyFrom(src string) error {
	info, err := os.Stat(src)
	if err != nil {
		return invalid("cannot read %s: %v", src, errors.Unwrap(err))
	}
	if info.IsDir() {
		return a.copyFolder(src, filepath.Base(src))
	}
	if !info.Mode().IsRegular() {
		return invalid("%s is neither a file nor a folder", src)
	}
	names := []string{filepath.Base(src)}
	if strings.EqualFold(filepath.Ext(src), ".onnx") {
		names = append(names, besides(src)...)
	}
	for _, name := range names {
		if err := a.copyFile(func() (fs.File, error) { return os.Open(filepath.Join(filepath.Dir(src), name)) }, name); err != nil {
			return err
		}
	}
	return nil
}

// besides are the files that exporters write next to an ONNX file for its large tensors.
func besides(src string) (names []string) {
	base := filepath.Base(src)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	for _, name := range []string{base + ".data", base + "_data", stem + ".data", stem + ".weights", stem + ".bin"} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(src), name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

// LooksLikeModel refuses a file or folder of this machine that is no model, by its names alone and before anything of it
// is read or copied.
func LooksLikeModel(src string) error {
	info, err := os.Stat(src)
	if err != nil {
		return invalid("cannot read %s: %v", src, errors.Unwrap(err))
	}
	base := filepath.Base(src)
	if !info.IsDir() {
		if archiveKind(base) == "" && modelFile(base) == "" {
			return invalid("%s is no model; drop an .onnx file, a model folder, or a zip of one", base)
		}
		return nil
	}
	var names []File
	const enough = 10_000
	stop := errors.New("enough")
	err = filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return invalid("cannot read %s: %v", p, errors.Unwrap(err))
		}
		if p != src && strings.HasPrefix(d.Name(), ".") && d.IsDir() {
			return fs.SkipDir
		}
		if rel, err := filepath.Rel(src, p); err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, File{Path: base + "/" + filepath.ToSlash(rel)})
		}
		if len(names) > enough {
			return stop
		}
		return nil
	})
	switch {
	case errors.Is(err, stop):
		return tooLarge("%s has more than %d files: drop the folder of one model", src, enough)
	case err != nil:
		return err
	case len(names) == 0:
		return invalid("%s is an empty folder", src)
	}
	t := newTree(names)
	t.enter()
	_, _, err = t.arrange()
	return err
}

func (a *Area) copyFolder(src, as string) error {
	root, err := os.OpenRoot(src)
	if err != nil {
		return invalid("cannot read %s: %v", src, errors.Unwrap(err))
	}
	defer root.Close()
	top, err := CleanPath(as)
	if err != nil || top == "" {
		top = "model"
	}
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return invalid("cannot read %s: %v", filepath.Join(src, p), err)
		}
		if p == "." {
			return nil
		}
		clean, err := CleanPath(p)
		if err != nil {
			return err
		}
		if clean == "" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		return a.copyFile(func() (fs.File, error) {
			info, err := root.Stat(p) // follows links, but not out of the folder
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() { // looked at before it is opened: opening a pipe would wait
				return nil, errors.New("not a regular file")
			}
			return root.Open(p)
		}, path.Join(top, clean))
	})
}

func (a *Area) copyFile(open func() (fs.File, error), as string) error {
	f, err := open()
	if err != nil {
		return invalid("cannot take %s: %v", as, err)
	}
	defer f.Close()
	return a.Put(as, f)
}

// Files lists what came in, by path.
func (a *Area) Files() []File {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]File, 0, len(a.files))
	for p, n := range a.files {
		out = append(out, File{Path: p, Size: n})
	}
	slices.SortFunc(out, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	return out
}

// ListFiles lists the regular files in a folder, by path. Hidden ones are left out.
func ListFiles(dir string) ([]File, error) {
	var out []File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() {
			return nil // a broken link, or gone since: not a file to show
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out = append(out, File{Path: filepath.ToSlash(rel), Size: info.Size(), Mod: info.ModTime()})
		return nil
	})
	return out, err
}
