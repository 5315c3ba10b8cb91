package staging

import (
	"cmp"
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

	"nereid/app/console/api"
	"nereid/app/console/rest"
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
	return Limits{Files: cmp.Or(l.Files, 10_000), Bytes: cmp.Or(l.Bytes, 64<<30), Ratio: cmp.Or(l.Ratio, 200),
		RatioFrom: cmp.Or(l.RatioFrom, 64<<20)}
}

// Area is a folder that takes in the files of one model. Put and Files are safe for concurrent use, also during
// the other methods. The other methods must not run at the same time as each other.
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
	inFolder    = "in"    // the files as received
	modelFolder = "model" // the arranged model
)

// Adopt moves a model folder that another Area has arranged into this one.
func (a *Area) Adopt(l Layout) (Layout, error) {
	to := filepath.Join(a.dir, modelFolder)
	if err := os.Rename(l.Dir, to); err != nil {
		return l, err
	}
	l.Dir = to
	return l, nil
}

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
	return a, root.Mkdir(inFolder, 0o700)
}

// Folder returns where the files are, below their names.
func (a *Area) Folder() string { return filepath.Join(a.dir, inFolder) }

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

// Put stores a file under name and replaces a file of that name. After an error, no part of the file is stored.
func (a *Area) Put(name string, r io.Reader) error {
	clean, err := CleanPath(name)
	if err != nil {
		return err
	}
	if clean == "" { // hidden: read it to the end, so that the client does not see a broken connection
		_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		return err
	}
	root, part, room, err := a.reserve(clean)
	if err != nil {
		return err
	}
	n, err := write(root, part, io.LimitReader(r, room+1))
	if err == nil && n > room {
		err = tooLarge("%q: the model has more than %d bytes; "+
			"raise the limit, or copy the model into the repository by hand", clean, a.limits.Bytes)
	}
	if err == nil {
		err = a.place(part, clean, n)
	}
	if err != nil {
		a.discard(part)
	}
	return err
}

// reserve checks that a file may be added. It returns the name in root to write it to and how many bytes it may have.
func (a *Area) reserve(clean string) (root *os.Root, part string, room int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root == nil {
		return nil, "", 0, removed()
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

// clash refuses a path that differs from another one only by case, or that is a file where another path has a folder.
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
		return removed()
	}
	if err := a.clash(clean); err != nil { // checked again: another Put may have finished since reserve
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
		_ = a.root.Remove(part) // Remove deletes the whole folder later
	}
}

// CopyFrom takes in a file or a folder of this machine. It refuses links that lead out of the folder and files that are
// not regular. Files that belong to a single ONNX file by name (model.onnx.data) are copied with it.
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
		names = append(names, dataFiles(src)...)
	}
	for _, name := range names {
		if err := a.copyFile(func() (fs.File, error) { return os.Open(filepath.Join(filepath.Dir(src), name)) },
			name); err != nil {
			return err
		}
	}
	return nil
}

// dataFiles are the files that exporters write next to an ONNX file for its large tensors.
func dataFiles(src string) (names []string) {
	base := filepath.Base(src)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	for _, name := range []string{base + ".data", base + "_data", stem + ".data", stem + ".weights", stem + ".bin"} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(src), name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

// CheckPath refuses a path of this machine that is not absolute, or is in the system's own trees or among what the
// server has staged.
func CheckPath(path, dataDir string) error {
	if !filepath.IsAbs(path) {
		return rest.Errorf(api.CodeInvalid, "the path %s is not absolute", rest.Quote(path))
	}
	real := filepath.Clean(path)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		real = target
	}
	for _, tree := range []string{"/proc", "/sys", "/dev", filepath.Join(dataDir, "imports"),
		filepath.Join(dataDir, "trash")} {
		if real == tree || strings.HasPrefix(real, tree+string(filepath.Separator)) {
			return rest.Errorf(api.CodeForbidden, "nothing can be imported from %s", path)
		}
	}
	return nil
}

// LooksLikeModel refuses a file or folder of this machine that is no model. It looks only at names and reads no file.
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
	var names []api.File
	const most = 10_000
	tooMany := errors.New("too many files")
	err = filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return invalid("cannot read %s: %v", p, errors.Unwrap(err))
		}
		if p != src && strings.HasPrefix(d.Name(), ".") && d.IsDir() {
			return fs.SkipDir
		}
		if rel, err := filepath.Rel(src, p); err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, api.File{Path: base + "/" + filepath.ToSlash(rel)})
		}
		if len(names) > most {
			return tooMany
		}
		return nil
	})
	switch {
	case errors.Is(err, tooMany):
		return tooLarge("%s has more than %d files: drop the folder of one model", src, most)
	case err != nil:
		return err
	case len(names) == 0:
		return invalid("%s is an empty folder", src)
	}
	t := newTree(names)
	t.enter()
	if len(t.models()) > 0 {
		return nil
	}
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
			info, err := root.Stat(p) // follows links inside the folder only
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() { // checked before opening: opening a pipe would block
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

// Files lists the received files by path, without times.
func (a *Area) Files() []api.File {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]api.File, 0, len(a.files))
	for p, n := range a.files {
		out = append(out, api.File{Path: p, SizeBytes: n})
	}
	slices.SortFunc(out, func(x, y api.File) int { return strings.Compare(x.Path, y.Path) })
	return out
}
