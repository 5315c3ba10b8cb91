package staging

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/durable"
)

// Layout is a model folder as Arrange made it.
type Layout struct {
	Kind     api.ImportKind
	Name     string // suggested for the model
	Dir      string // the folder
	Files    []api.File
	Versions []string // ascending
	Notes    []string // what the user should know

	loose string // the model file's name if it was in no version folder
}

// configName is the name of the configuration in a model folder.
const configName = "config.pbtxt"

// Arrange makes model folders of what came in: one, or those of a model repository, sorted by name. An archive is
// unpacked. Outer folders are removed. Model files that are in no version folder go into version 1, an ONNX file as
// model.onnx. source is the name of what was dropped, from which a model name may be suggested. Arrange may be called
// again after more files were put in. Packages of other programs are recognised by their manifests.
func (a *Area) Arrange(source string) ([]Layout, error) {
	received := a.Files()
	if len(received) == 0 {
		return nil, invalid("nothing was uploaded; drop an .onnx file, a model folder, or a zip of one")
	}
	from, kind, hint := a, api.ImportONNX, source
	if len(received) == 1 && archiveKind(received[0].Path) != "" {
		archive := received[0].Path
		unpacked, err := a.unpack(archive)
		if err != nil {
			return nil, err
		}
		defer unpacked.root.Close()
		if received = unpacked.Files(); len(received) == 0 {
			return nil, invalid("%s has no files in it", archive)
		}
		from, kind, hint = unpacked, api.ImportZip, archive
	}
	t := newTree(received)
	entered := t.enter()
	if models := t.models(); len(models) > 0 && !slices.Contains(t.files, configName) {
		var all []Layout
		for i, name := range models {
			one := t.below(name)
			l, err := one.layout(from, filepath.Join(a.dir, modelFolder+"-"+strconv.Itoa(i)), name)
			if err != nil {
				return nil, err
			}
			if l.Kind = api.ImportFolder; kind == api.ImportZip {
				l.Kind = kind
			}
			all = append(all, l)
		}
		return all, nil
	}
	l, err := t.layout(from, filepath.Join(a.dir, modelFolder), hint)
	if l.Kind = kind; kind == api.ImportONNX && (entered || l.loose == "") {
		l.Kind = api.ImportFolder
	}
	return []Layout{l}, err
}

// layout makes a model folder of the tree's files.
func (t *tree) layout(from *Area, dir, hint string) (l Layout, err error) {
	found, labels, err := from.recognise(t)
	if err != nil {
		return l, err
	}
	l.Dir = dir
	var moves []move
	if found != nil {
		moves, l.Notes, t.name = found.moves(t), found.notes, cmp.Or(found.name, t.name)
	} else if moves, l.loose, err = t.arrange(); err != nil {
		return l, err
	}
	switch {
	case t.name != "":
		hint = t.name
	case l.loose != "" && strings.TrimSuffix(l.loose, path.Ext(l.loose)) != "model", hint == "":
		hint = cmp.Or(l.loose, hint)
	}
	l.Name = ModelName(hint)
	if err := from.build(dir, moves); err != nil {
		return l, err
	}
	if len(labels) > 0 {
		text := strings.Join(labels, "\n") + "\n"
		if err := durable.Replace(filepath.Join(dir, labelsName), []byte(text), 0o644); err != nil {
			return l, err
		}
		l.Notes = append(l.Notes, fmt.Sprintf("%s has %d class names; label_filename of an output in config.pbtxt "+
			"attaches them", labelsName, len(labels)))
	}
	return l, l.describe()
}

// tree is a set of files, seen from a folder in it.
type tree struct {
	files []string // paths below base
	base  string   // with a slash at the end, or ""
	name  string   // of base's last part
}

func newTree(files []api.File) *tree {
	t := &tree{}
	for _, f := range files {
		t.files = append(t.files, f.Path)
	}
	return t
}

// here returns the names of the files and folders in base.
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

// enter leaves outer folders that hold only one folder and do not belong to a model folder.
func (t *tree) enter() (entered bool) {
	for {
		files, folders := t.here()
		if len(files) > 0 || len(folders) != 1 || isVersion(folders[0]) || modelFile(folders[0]) != "" ||
			folders[0] == "MAR-INF" {
			return entered
		}
		t.name, entered = folders[0], true
		t.base += t.name + "/"
		for i := range t.files {
			t.files[i] = strings.TrimPrefix(t.files[i], t.name+"/")
		}
	}
}

// move is a file's path as received, and its path in the model folder. to ends in a slash for an empty folder.
type move struct{ from, to string }

// arrange decides where each file goes. loose is the model file's name if it was in no version folder.
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
		return nil, "", t.noModel()
	}
	for _, f := range t.files {
		m := as(f)
		first, rest, _ := strings.Cut(f, "/")
		switch {
		case loose == "" || first == "configs" || first == "warmup" || rest == "" && belongsToModel(f):
		case strings.EqualFold(loose, "saved_model.pb"): // the inside of a SavedModel
			m.to = path.Join("1", modelFile(loose), f)
		case loose == strings.TrimSuffix(f, ".bin")+".xml": // OpenVINO finds the weights by the graph's name
			m.to = "1/model.bin"
		case first == loose:
			m.to = path.Join("1", modelFile(loose), rest)
		default:
			m.to = path.Join("1", f)
		}
		moves = append(moves, m)
	}
	if loose == "" { // an ensemble has only a configuration, but it needs a version too
		moves = append(moves, move{to: "1/"})
	}
	return moves, loose, nil
}

// modelFile returns the name that a model file must have in its version folder, "" for other files.
func modelFile(name string) string {
	lower := strings.ToLower(name)
	if lower == "saved_model.pb" {
		return "model.savedmodel"
	}
	switch path.Ext(lower) {
	case ".onnx", ".pt", ".pt2", ".plan", ".savedmodel", ".graphdef", ".xml":
		return "model" + path.Ext(lower)
	case ".pth", ".torchscript": // as Ultralytics names it
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
	return "", invalid("several model files (%s): drop one at a time, or name the main one %s",
		list(found), modelFile(found[0]))
}

// belongsToModel reports whether a file belongs beside the version folders.
func belongsToModel(name string) bool {
	if name == configName {
		return true
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".txt", ".md", ".pbtxt", ".names":
		return true
	}
	return strings.EqualFold(name, "LICENSE")
}

// noModel is the error for files without a model. It names what was found instead.
func (t *tree) noModel() error {
	return invalid("no model was found in %s; "+
		"drop an .onnx file, a model folder (config.pbtxt, 1/model.onnx), or a zip of one", list(t.files))
}

// below is the tree of a folder in base.
func (t *tree) below(folder string) *tree {
	one := &tree{base: t.base + folder + "/", name: folder}
	for _, f := range t.files {
		if rest, ok := strings.CutPrefix(f, folder+"/"); ok {
			one.files = append(one.files, rest)
		}
	}
	return one
}

// models are the folders in base that are those of models, if base is a repository.
func (t *tree) models() (models []string) {
	files, folders := t.here()
	if slices.Contains(files, bentoFile) {
		return t.bentoModels()
	}
	if slices.ContainsFunc(slices.Concat(files, folders), func(n string) bool { return modelFile(n) != "" }) ||
		slices.ContainsFunc(folders, isVersion) || slices.Contains(t.files, "MAR-INF/MANIFEST.json") ||
		slices.Contains(files, "MLmodel") || slices.Contains(files, "model-settings.json") ||
		slices.Contains(files, navigatorFile) && slices.Contains(files, navigatorLog) {
		return nil
	}
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
	return models
}

func list(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}

// isVersion reports whether a folder's name is a version: a positive number without a leading zero.
func isVersion(name string) bool {
	n, err := strconv.ParseInt(name, 10, 64)
	return err == nil && n > 0 && name[0] != '0' && name[0] != '+'
}

// build makes the model folder at dir from the files of the Area. It uses links where the file system has them, so that
// the received files stay for another Arrange.
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

// describe lists the files and versions of the arranged folder.
func (l *Layout) describe() error {
	files, err := folders.List(l.Dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && isVersion(e.Name()) {
			l.Versions = append(l.Versions, e.Name())
		}
	}
	slices.SortFunc(l.Versions, func(a, b string) int { // as numbers: none has a leading zero
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	l.Files = files
	return nil
}
