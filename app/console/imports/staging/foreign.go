package staging

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// foreign is how a package of another program becomes a model folder.
type foreign struct {
	name  string // that the package gives the model; "" if none
	model string // the model's file or folder; "": as in a folder without a manifest
	skip  []string
	notes []string
}

// maxManifest is the largest manifest that is read, in bytes.
const maxManifest = 4 << 20

// labelsName is the file of class names that recognise makes.
const labelsName = "labels.txt"

// recognise reads the manifests of other programs: MAR-INF/MANIFEST.json of TorchServe, MLmodel of MLflow,
// model-settings.json of MLServer and KServe, bento.yaml and model.yaml of BentoML, status.yaml of Model Navigator,
// metadata.yaml of Ultralytics, and config.json of Transformers and timm.
// found is nil for files without one. labels are the class names that a manifest has.
func (a *Area) recognise(t *tree) (found *foreign, labels []string, err error) {
	for _, kind := range []struct {
		manifest string
		read     func(*tree, []byte) (*foreign, error)
	}{{"MAR-INF/MANIFEST.json", torchServe}, {"MLmodel", mlflow}, {"model-settings.json", mlServer},
		{bentoFile, bento}, {bentoModelFile, bentoModel}, {navigatorFile, navigator}} {
		if b, ok, err := a.read(t, kind.manifest); err != nil {
			return nil, nil, err
		} else if ok {
			if found, err = kind.read(t, b); err != nil {
				return nil, nil, err
			}
			break
		}
	}
	if slices.Contains(t.files, labelsName) {
		return found, nil, nil
	}
	for _, name := range []string{"index_to_name.json", "metadata.yaml", "config.json"} {
		b, ok, err := a.read(t, name)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			if labels = classNames(b); labels != nil {
				break
			}
		}
	}
	return found, labels, nil
}

// read reads a file of the tree.
func (a *Area) read(t *tree, name string) (b []byte, ok bool, err error) {
	if !slices.Contains(t.files, name) {
		return nil, false, nil
	}
	f, err := a.root.Open(path.Join(inFolder, t.base, name))
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	b, err = io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(b) > maxManifest {
		err = tooLarge("%s has more than %d bytes", name, maxManifest)
	}
	return b, true, err
}

// torchServe reads the manifest of a model archive.
// https://github.com/pytorch/serve/blob/master/model-archiver/README.md
func torchServe(t *tree, b []byte) (*foreign, error) {
	var m struct {
		Model struct {
			Name       string `json:"modelName"`
			Serialized string `json:"serializedFile"`
			Class      string `json:"modelFile"`
			Handler    string `json:"handler"`
		} `json:"model"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, invalid("the manifest of the TorchServe archive cannot be read: %v", err)
	}
	f := &foreign{name: m.Model.Name, model: m.Model.Serialized, skip: []string{"MAR-INF/", "index_to_name.json"}}
	if m.Model.Class != "" {
		return nil, invalid("the TorchServe archive has the weights of the class in %s, and no graph; "+
			"export it with torch.onnx.export or torch.jit.script, and import that file", m.Model.Class)
	}
	cure := "archive it again with an .onnx or a TorchScript file"
	if err := t.hasModel(f.model, "the TorchServe archive", cure); err != nil {
		return nil, err
	}
	if handler, _, _ := strings.Cut(m.Model.Handler, ":"); handler != "" {
		f.notes = append(f.notes, fmt.Sprintf("the handler %s is not taken: clients send and receive tensors", handler))
	}
	for _, name := range t.files { // programs that only the handler uses
		if ext := path.Ext(name); name != f.model && (ext == ".py" || ext == ".sh" || name == "requirements.txt") {
			f.skip = append(f.skip, name)
		}
	}
	return f, nil
}

// mlflow reads the manifest of an MLflow model. https://mlflow.org/docs/latest/ml/model/
func mlflow(t *tree, b []byte) (*foreign, error) {
	var m struct {
		Flavors map[string]map[string]any `yaml:"flavors"`
	}
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, invalid("the file MLmodel cannot be read: %v", err)
	}
	f := &foreign{skip: []string{"MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "input_example.json",
		"serving_input_example.json", "registered_model_meta", "metadata/"}}
	f.model, _ = m.Flavors["onnx"]["data"].(string)
	if f.model == "" {
		f.model, _ = m.Flavors["tensorflow"]["saved_model_dir"].(string)
	}
	if f.model == "" {
		delete(m.Flavors, "python_function")
		names, cure := list(slices.Sorted(maps.Keys(m.Flavors))), "log it with mlflow.onnx.log_model where its code is"
		if command := t.conversionOf(m.Flavors); command != "" {
			cure = "unpack it and run " + command
		}
		return nil, invalid("the MLflow model has the flavours %s, which need its Python code; %s, or write a "+
			"model.py that loads it", cmp.Or(names, "of Python only"), cure)
	}
	return f, t.hasModel(f.model, "the MLflow model", "log it again with mlflow.onnx.log_model")
}

// convertible are the flavours of MLflow whose file nereid convert takes, if its name has one of these ends. The value
// has the options that it needs.
var convertible = map[string]map[string]string{
	"catboost": {".cb": ""}, "keras": {".keras": "", ".h5": ""}, "lightgbm": {".lgb": "", ".pkl": "--trust "},
	"pytorch": {".pt2": "--trust ", ".pth": "--trust --shape=SHAPE "}, "sklearn": {".pkl": "--trust "},
	"tensorflow": {".keras": "", ".h5": ""},
	"xgboost":    {".xgb": "", ".json": "", ".ubj": "", ".pkl": "--trust "},
}

// conversionOf returns the command that makes an ONNX model of an MLflow model; "" if no flavour can be converted.
func (t *tree) conversionOf(flavors map[string]map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(flavors)) {
		for _, file := range t.filesOf(flavors[name]) {
			if option, ok := convertible[name][path.Ext(file)]; ok {
				return "nereid convert -r REPOSITORY --name=NAME " + option + file
			}
		}
	}
	return ""
}

// filesOf returns the files of an MLflow model that a flavour names, themselves or by their folder.
func (t *tree) filesOf(fields map[string]any) (files []string) {
	for _, f := range t.files {
		for _, v := range fields {
			if name, ok := v.(string); ok && (f == name || path.Dir(f) == name) && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}

// mlServer reads the settings of a model in MLServer's layout, which KServe's storage has too.
// https://mlserver.readthedocs.io/en/latest/reference/model-settings.html
func mlServer(t *tree, b []byte) (*foreign, error) {
	var m struct {
		Name           string `json:"name"`
		Implementation string `json:"implementation"`
		Parameters     struct {
			URI string `json:"uri"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, invalid("model-settings.json cannot be read: %v", err)
	}
	f := &foreign{name: m.Name, model: path.Clean(m.Parameters.URI), skip: []string{"model-settings.json",
		"settings.json"}}
	return f, t.hasModel(f.model, "the model of "+m.Implementation, "export it to ONNX, and set its uri to that file")
}

// hasModel refuses a model file that is missing, or that is of no known kind.
func (t *tree) hasModel(name, where, cure string) error {
	below := strings.TrimSuffix(name, "/") + "/"
	there := slices.ContainsFunc(t.files, func(f string) bool { return f == name || strings.HasPrefix(f, below) })
	switch {
	case name == "" || name == "." || !filepath.IsLocal(name):
		return invalid("%s names no model file; %s", where, cure)
	case !there:
		return invalid("%s lacks its model file %s", where, name)
	case modelFile(path.Base(name)) == "" && !slices.Contains(t.files, below+"saved_model.pb"):
		return invalid("%s has the model file %s, which no backend reads; %s", where, name, cure)
	}
	return nil
}

// moves decides where the files of a foreign package go: the model to its place, and what lies beside it near it.
func (f *foreign) moves(t *tree) (moves []move) {
	folder := path.Dir(f.model)
	below := strings.TrimSuffix(f.model, "/") + "/"
	as := "model.savedmodel"
	if want := modelFile(path.Base(f.model)); want != "" {
		as = want
	}
	for _, name := range t.files {
		m := move{from: t.base + name}
		rest, beside := name, true
		if folder != "." {
			rest, beside = strings.CutPrefix(name, folder+"/")
		}
		switch {
		case slices.ContainsFunc(f.skip, func(s string) bool {
			return s == name || strings.HasSuffix(s, "/") && strings.HasPrefix(name, s)
		}):
			continue
		case name == f.model:
			m.to = "1/" + as
		case strings.HasPrefix(name, below):
			m.to = "1/" + as + "/" + strings.TrimPrefix(name, below)
		case rest == "" || !strings.Contains(name, "/") && belongsToModel(name):
			m.to = name
		case beside:
			m.to = "1/" + rest
		default:
			m.to = "1/" + name
		}
		moves = append(moves, m)
	}
	return moves
}

// classNames finds the names of classes in a manifest of JSON or YAML: an object from numbers to names, or a list. It
// is under id2label (Transformers), names (Ultralytics) or label_names (timm), or the whole file (TorchServe).
// classNames returns nil if there are none.
func classNames(b []byte) []string {
	var whole map[string]any
	if json.Unmarshal(b, &whole) != nil {
		var of yaml.Node
		if yaml.NewDecoder(bytes.NewReader(b)).Decode(&of) != nil || of.Decode(&whole) != nil {
			return nil
		}
	}
	for _, key := range []string{"id2label", "names", "label_names"} {
		if names := listOfNames(whole[key]); names != nil {
			return names
		}
	}
	return listOfNames(whole)
}

func listOfNames(v any) []string {
	byNumber := map[string]any{}
	switch v := v.(type) {
	case []any:
		for i, name := range v {
			byNumber[strconv.Itoa(i)] = name
		}
	case map[string]any:
		byNumber = v
	case map[any]any:
		for k, name := range v {
			byNumber[fmt.Sprint(k)] = name
		}
	}
	var names []string
	for i := range len(byNumber) {
		name := byNumber[strconv.Itoa(i)]
		if several, ok := name.([]any); ok && len(several) > 0 { // ["n01440764", "tench"]
			name = several[len(several)-1]
		}
		text, ok := name.(string)
		if !ok || strings.ContainsAny(text, "\r\n") {
			return nil
		}
		names = append(names, text)
	}
	return names
}
