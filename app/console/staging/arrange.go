package staging

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/app/durable"
)

// Shape is the form in which a model came in.
type Shape string

// The shapes.
const (
	SingleFile Shape = "file"    // one model file, with its data files, if any
	Folder     Shape = "folder"  // a model folder: versions, perhaps a configuration
	Archive    Shape = "archive" // an archive of either
)

// Layout is a model folder as Arrange made it.
type Layout struct {
	Shape    Shape
	Name     string // suggested for the model
	Dir      string // the folder
	Files    []File
	Versions []string // ascending
	Code     []CodeFile
}

// CodeFile is a file that runs as code when the model is loaded.
type CodeFile struct {
	Path string
	Why  string // in words
}

// configName is the name of the configuration in a model folder.
const configName = "config.pbtxt"

// Arrange makes a model folder of what came in: an archive is unpacked; outer folders are taken off; model files that
// are in no version folder go into version 1, an ONNX file as model.onnx. source names what was dropped, for the
// suggestion of a name. It may be called again after more was put in. An *Error says what does not fit.
func (a *Area) Arrange(source string) (Layout, error) {
	came := a.Files()
	if len(came) == 0 {
		return Layout{}, invalid("nothing was uploaded; drop an .onnx file, a model folder, or a zip of one")
	}
	from, shape, hint := a, SingleFile, source
	if len(came) == 1 && archiveKind(came[0].Path) != "" {
		only := came[0].Path
		unpacked, err := a.unpack(only)
		if err != nil {
			return Layout{}, err
		}
		defer unpacked.root.Close()
		if came = unpacked.Files(); len(came) == 0 {
			return Layout{}, invalid("%s has no files in it", only)
		}
		from, shape, hint = unpacked, Archive, only
	}
	t := newTree(came)
	if t.enter() && shape == SingleFile {
		shape = Folder
	}
	moves, loose, err := t.arrange()
	if err != nil {
		return Layout{}, err
	}
	if shape == SingleFile && loose == "" {
		shape = Folder
	}
	switch {
	case t.name != "":
		hint = t.name
	case loose != "" && strings.TrimSuffix(loose, path.Ext(loose)) != "model", hint == "":
		hint = loose
	}
	l := Layout{Shape: shape, Name: ModelName(hint), Dir: filepath.Join(a.dir, modelFolder)}
	if err := from.build(l.Dir, moves); err != nil {
		return Layout{}, err
	}
	return l, l.describe()
}

// tree is a set of files, looked at from a folder in it.
type tree struct {
	files []string // paths below base
	base  string   // with a slash at the end, or ""
	name  string   // of base's last part
}

func newTree(files []File) *tree {
	t := &tree{}
	for _, f := range files {
		t.files = append(t.files, f.Path)
	}
	return t
}

// here answers the names of the files and folders in base.
func (t *tree) here() (files, folders []string) {
	for _, f := range t.files {
		name, _, inFolder := strings.Cut(f, "/")
		if !inFolder {
			files = append(files, name)
		} else if !slices.Contains(folders, name) {
			folders = append(folders, name)
		}
	}
	return files, folders
}

// enter takes off outer folders that hold nothing but one folder, and are not part of a model folder's form.
func (t *tree) enter() (entered bool) {
	for {
		files, folders := t.here()
		if len(files) > 0 || len(folders) != 1 || isVersion(folders[0]) || modelFile(folders[0]) != "" {
			return entered
		}
		t.name, entered = folders[0], true
		t.base += t.name + "/"
		for i := range t.files {
			t.files[i] = strings.TrimPrefix(t.files[i], t.name+"/")
		}
	}
}

// move is a file's path as it came in, and as it will be in the model folder. to ends in a slash for an empty folder.
type move struct{ from, to string }

// arrange says where each file goes. loose is the model file's name if it was in no version folder.
func (t *tree) arrange() (moves []move, loose string, err error) {
	files, folders := t.here()
	as := func(f string) move { return move{t.base + f, f} }
	hasConfig := slices.Contains(files, configName)
	if slices.ContainsFunc(folders, isVersion) {
		for _, f := range t.files {
			moves = append(moves, as(f))
		}
		return moves, "", nil
	}
	loose, err = chooseModel(append(slices.Clone(files), folders...))
	if err != nil {
		return nil, "", err
	}
	if loose == "" && !hasConfig {
		return nil, "", t.nothing(folders)
	}
	for _, f := range t.files {
		m := as(f)
		first, rest, _ := strings.Cut(f, "/")
		switch {
		case loose == "" || first == "configs" || first == "warmup" || rest == "" && staysOnTop(f):
		case strings.EqualFold(loose, "saved_model.pb"): // the inside of a SavedModel
			m.to = path.Join("1", modelFile(loose), f)
		case first == loose:
			m.to = path.Join("1", modelFile(loose), rest)
		default:
			m.to = path.Join("1", f)
		}
		moves = append(moves, m)
	}
	if loose == "" { // as an ensemble: a configuration is all there is, but a version it must have
		moves = append(moves, move{to: "1/"})
	}
	return moves, loose, nil
}

// modelFile is the name that a model file must have in its version folder; "" for a name that is none.
func modelFile(name string) string {
	lower := strings.ToLower(name)
	if lower == "saved_model.pb" {
		return "model.savedmodel"
	}
	switch path.Ext(lower) {
	case ".onnx", ".pt", ".pt2", ".plan", ".savedmodel", ".graphdef", ".xml":
		return "model" + path.Ext(lower)
	case ".pth":
		return "model.pt"
	}
	if lower == "model.py" {
		return "model.py"
	}
	return ""
}

// chooseModel finds the model file among names; "" if there is none. Two are refused unless one is called model.
func chooseModel(names []string) (string, error) {
	var found []string
	for _, n := range names {
		if want := modelFile(n); want != "" {
			if n == want {
				return n, nil
			}
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", invalid("several model files (%s): drop one at a time, or name the main one %s", list(found), modelFile(found[0]))
}

// staysOnTop tells the files that belong beside the version folders.
func staysOnTop(name string) bool {
	if name == configName {
		return true
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".txt", ".md", ".pbtxt":
		return true
	}
	return strings.EqualFold(name, "LICENSE")
}

// nothing says that there is no model, and what was found in its place.
func (t *tree) nothing(folders []string) error {
	var models []string
	for _, d := range folders {
		for _, f := range t.files {
			rest, ok := strings.CutPrefix(f, d+"/")
			first, _, _ := strings.Cut(rest, "/")
			if ok && (rest == configName || isVersion(first) || modelFile(first) != "") {
				models = append(models, d)
				break
			}
		}
	}
	if len(models) > 0 {
		return invalid("this looks like a model repository (with %s): drop one of its model folders at a time", list(models))
	}
	return invalid("no model was found in %s; drop an .onnx file, a model folder (config.pbtxt, 1/model.onnx), or a zip of one", list(t.files))
}

func list(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}

// isVersion tells the name of a version folder: a positive number without a zero in front.
func isVersion(name string) bool {
	n, err := strconv.ParseInt(name, 10, 64)
	return err == nil && n > 0 && name[0] != '0' && name[0] != '+'
}

// build makes the model folder at dir from the files of the Area: as links where the file system has them, so that
// what came in stays for another Arrange.
func (a *Area) build(dir string, moves []move) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, m := range moves {
		to := filepath.Join(dir, filepath.FromSlash(m.to))
		if strings.HasSuffix(m.to, "/") {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := linkOrCopy(filepath.Join(a.dir, inFolder, filepath.FromSlash(m.from)), to); err != nil {
			return err
		}
	}
	return nil
}

func linkOrCopy(from, to string) error {
	if err := os.Chmod(from, 0o644); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Copy(from, to)
}

// describe lists the files, versions and code of the arranged folder.
func (l *Layout) describe() error {
	files, err := ListFiles(l.Dir)
	if err != nil {
		return err
	}
	l.Files, l.Code = files, nil
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return err
	}
	l.Versions = nil
	for _, e := range entries {
		if e.IsDir() && isVersion(e.Name()) {
			l.Versions = append(l.Versions, e.Name())
		}
	}
	slices.SortFunc(l.Versions, func(a, b string) int {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return cmp.Compare(x, y)
	})
	for _, f := range files {
		if why := runs(f.Path); why != "" {
			l.Code = append(l.Code, CodeFile{f.Path, why})
		}
	}
	return nil
}

// runs says why loading a file can run code that is in it; "" if it cannot.
func runs(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".py", ".pyc", ".pyd":
		return "a Python program"
	case ".pt", ".pt2", ".pth", ".pkl", ".pickle", ".joblib":
		return "a pickle: unpacking it can run code"
	case ".so", ".dll", ".dylib":
		return "a native library"
	case ".sh", ".bat", ".exe":
		return "a program"
	}
	return ""
}
