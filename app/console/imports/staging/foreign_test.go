package staging

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packages are files of other programs, and what becomes of them.
var packages = map[string]struct {
	files map[string]string
	want  string // MODEL: files; or the error
}{
	"TorchServe with a graph": {map[string]string{
		"MAR-INF/MANIFEST.json": `{"model":{"modelName":"cat","serializedFile":"net.pt","handler":"classifier"}}`,
		"net.pt":                "graph", "handler.py": "code",
		"index_to_name.json": `{"0":["n1","tench"],"1":["n2","dog"]}`},
		"cat: 1/model.pt=graph labels.txt=tench\ndog\n"},
	"TorchServe with ONNX": {map[string]string{
		"MAR-INF/MANIFEST.json": `{"model":{"modelName":"cat","serializedFile":"net.onnx"}}`, "net.onnx": "graph",
		"net.onnx.data": "weights"}, "cat: 1/model.onnx=graph 1/net.onnx.data=weights"},
	"TorchServe without a graph": {map[string]string{
		"MAR-INF/MANIFEST.json": `{"model":{"modelName":"cat","serializedFile":"w.pth","modelFile":"net.py"}}`,
		"w.pth":                 "weights", "net.py": "code"}, "export it with torch.onnx.export"},
	"TorchServe without its file": {map[string]string{
		"MAR-INF/MANIFEST.json": `{"model":{"modelName":"cat","serializedFile":"net.pt"}}`},
		"lacks its model file net.pt"},
	"TorchServe that leads out": {map[string]string{
		"MAR-INF/MANIFEST.json": `{"model":{"serializedFile":"../net.pt"}}`}, "names no model file"},
	"TorchServe that is broken": {map[string]string{"MAR-INF/MANIFEST.json": `{`}, "cannot be read"},
	"MLflow with ONNX": {map[string]string{
		"MLmodel":    "flavors:\n  onnx:\n    data: model.onnx\n  python_function:\n    env: conda.yaml\n",
		"model.onnx": "graph", "model.onnx.data": "weights", "requirements.txt": "mlflow", "conda.yaml": ""},
		"pkg: 1/model.onnx=graph 1/model.onnx.data=weights"},
	"MLflow with TensorFlow": {map[string]string{
		"MLmodel":                      "flavors:\n  tensorflow:\n    saved_model_dir: tf2model\n",
		"tf2model/saved_model.pb":      "graph",
		"tf2model/variables/variables": "weights"},
		"pkg: 1/model.savedmodel/saved_model.pb=graph 1/model.savedmodel/variables/variables=weights"},
	"MLflow with Python": {map[string]string{"MLmodel": "flavors:\n  sklearn:\n    pickled_model: model.pkl\n",
		"model.pkl": "pickle", "conda.yaml": ""},
		"run nereid convert -r REPOSITORY --name=NAME --trust model.pkl, or write a model.py"},
	"MLflow with XGBoost": {map[string]string{
		"MLmodel":   "flavors:\n  xgboost:\n    data: model.xgb\n  python_function:\n    data: model.xgb\n",
		"model.xgb": "trees"}, "run nereid convert -r REPOSITORY --name=NAME model.xgb, or"},
	"MLflow with Keras": {map[string]string{
		"MLmodel":          "flavors:\n  tensorflow:\n    data: data\n    model_type: keras\n",
		"data/model.keras": "layers"}, "run nereid convert -r REPOSITORY --name=NAME data/model.keras, or"},
	"MLflow with PyTorch": {map[string]string{
		"MLmodel":        "flavors:\n  pytorch:\n    model_data: data\n  python_function:\n    data: data\n",
		"data/model.pth": "pickle", "data/pickle_module_info.txt": "mlflow.pytorch.pickle_module"},
		"run nereid convert -r REPOSITORY --name=NAME --trust --shape=SHAPE data/model.pth, or"},
	"MLflow with PyTorch's exported program": {map[string]string{
		"MLmodel":        "flavors:\n  pytorch:\n    model_data: data\n    code: null\n",
		"data/model.pt2": "program"}, "run nereid convert -r REPOSITORY --name=NAME --trust data/model.pt2, or"},
	"MLflow with spaCy": {map[string]string{
		"MLmodel":        "flavors:\n  spacy:\n    data: data\n  python_function:\n    data: data\n",
		"data/model.cfg": "words"}, "spacy, which need its Python code; log it with mlflow.onnx.log_model where"},
	"MLflow without a file": {map[string]string{"MLmodel": "flavors:\n  python_function: {}\n"},
		"has the flavours of Python only, which need its Python code; log it with mlflow.onnx.log_model"},
	"BentoML with ONNX": {map[string]string{
		"model.yaml":       "name: iris\nversion: abc\nmodule: bentoml.onnx\napi_version: v2\n",
		"saved_model.onnx": "graph", "custom_objects.pkl": "code"}, "iris: 1/model.onnx=graph"},
	"BentoML with TorchScript": {map[string]string{
		"model.yaml": "name: iris\nmodule: bentoml.torchscript\n", "saved_model.pt": "graph"},
		"iris: 1/model.pt=graph"},
	"BentoML with TensorFlow": {map[string]string{
		"model.yaml":     "name: iris\nmodule: bentoml.tensorflow\n",
		"saved_model.pb": "graph", "variables/variables": "w"},
		"iris: 1/model.savedmodel/saved_model.pb=graph 1/model.savedmodel/variables/variables=w"},
	"BentoML with PyTorch": {map[string]string{
		"model.yaml": "name: iris\nmodule: bentoml.pytorch\n", "saved_model.pt": "pickle"},
		"the model of bentoml.pytorch has the files saved_model.pt, which need its Python code"},
	"BentoML with scikit-learn": {map[string]string{
		"model.yaml": "name: iris\nmodule: bentoml.sklearn\n", "saved_model.pkl": "pickle"}, "with nereid convert"},
	"a bento with a model": {map[string]string{
		"bento.yaml": "service: service:svc\n", "src/service.py": "code", "src/model.py": "code",
		"models/iris/latest": "abc", "models/iris/abc/model.yaml": "name: iris\nmodule: bentoml.onnx\n",
		"models/iris/abc/saved_model.onnx": "graph", "env/python/requirements.txt": ""},
		"iris: 1/model.onnx=graph"},
	"a bento without models": {map[string]string{
		"bento.yaml": "service: service:svc\n", "src/service.py": "code", "src/model.py": "code"},
		"the bento has its service's Python code and no model files"},
	"another model.yaml": {map[string]string{"model.yaml": "module: 3\n", "net.onnx": "graph"},
		"pkg: 1/model.onnx=graph 1/model.yaml=module: 3\n"},
	"MLServer with ONNX": {map[string]string{
		"model-settings.json": `{"name":"iris","implementation":"x.Onnx","parameters":{"uri":"./m/net.onnx"}}`,
		"m/net.onnx":          "graph"}, "iris: 1/model.onnx=graph"},
	"MLServer with scikit-learn": {map[string]string{
		"model-settings.json": `{"implementation":"mlserver_sklearn.SKLearnModel","parameters":{"uri":"m.joblib"}}`,
		"m.joblib":            "pickle"}, "the model of mlserver_sklearn.SKLearnModel has the model file m.joblib"},
	"Model Navigator with ONNX": {map[string]string{
		"status.yaml": "model_navigator_version: 0.14.0\nmodels_status:\n" +
			"  torch: {model_config: {format: torch, path: torch/----}}\n" +
			"  torchscript-script: {model_config: {format: torchscript, path: torchscript-script/model.pt}}\n" +
			"  onnx: {model_config: {format: onnx, path: onnx/model.onnx}}\n" +
			"  trt-fp16: {model_config: {format: trt, path: trt-fp16/model.plan}}\n",
		"navigator.log": "log", "onnx/model.onnx": "graph", "onnx/model.onnx.data": "weights",
		"onnx/reproduce_export.py": "code", "onnx/reproduce.sh": "code", "onnx/format.log": "log",
		"torchscript-script/model.pt": "script", "model_input/profiling/0.npz": "sample"},
		"pkg: 1/model.onnx=graph 1/model.onnx.data=weights"},
	"Model Navigator with TorchScript": {map[string]string{
		"status.yaml": "model_navigator_version: 0.3.0\nmodels_status:\n" +
			"  onnx: {model_config: {format: onnx, path: onnx/model.onnx}}\n" + // it could not be exported
			"  torchscript-trace: {model_config: {format: torchscript, path: torchscript-trace/model.pt}}\n",
		"navigator.log": "log", "torchscript-trace/model.pt": "script"}, "pkg: 1/model.pt=script"},
	"Model Navigator with TensorFlow": {map[string]string{
		"status.yaml": "model_navigator_version: 0.3.0\nmodels_status:\n" +
			"  tf-savedmodel: {model_config: {format: tf-savedmodel, path: tf-savedmodel/model.savedmodel}}\n",
		"navigator.log": "log", "tf-savedmodel/model.savedmodel/saved_model.pb": "graph"},
		"pkg: 1/model.savedmodel/saved_model.pb=graph"},
	"Model Navigator with TensorRT": {map[string]string{
		"status.yaml": "model_navigator_version: 0.3.0\nmodels_status:\n" +
			"  trt-fp16: {model_config: {format: trt, path: trt-fp16/model.plan}}\n",
		"navigator.log": "log", "trt-fp16/model.plan": "plan"},
		"the package of Model Navigator has the formats trt; optimize the model again"},
	"another status.yaml": {map[string]string{"status.yaml": "models_status: 3\n", "net.onnx": "graph"},
		"pkg: 1/model.onnx=graph 1/status.yaml=models_status: 3\n"},
	"SavedModel": {map[string]string{"saved_model.pb": "graph", "variables/variables.index": "w"},
		"pkg: 1/model.savedmodel/saved_model.pb=graph 1/model.savedmodel/variables/variables.index=w"},
	"Ultralytics for TorchScript": {map[string]string{"yolo.torchscript": "script"}, "pkg: 1/model.pt=script"},
	"Ultralytics for OpenVINO": {map[string]string{
		"metadata.yaml": "author: Ultralytics\nnames:\n  0: person\n  1: car\n",
		"yolo.xml":      "graph", "yolo.bin": "weights"},
		"pkg: 1/metadata.yaml=author: Ultralytics\nnames:\n  0: person\n  1: car\n 1/model.bin=weights " +
			"1/model.xml=graph labels.txt=person\ncar\n"},
	"timm": {map[string]string{"config.json": `{"label_names":["cat","dog"]}`, "model.onnx": "graph"},
		`pkg: 1/config.json={"label_names":["cat","dog"]} 1/model.onnx=graph labels.txt=cat` + "\ndog\n"},
	"Transformers": {map[string]string{"config.json": `{"id2label":{"1":"good","0":"bad"}}`, "model.onnx": "graph"},
		`pkg: 1/config.json={"id2label":{"1":"good","0":"bad"}} 1/model.onnx=graph labels.txt=bad` + "\ngood\n"},
}

// Packages of other programs become model folders, or the error says why not and what to do.
func TestPackagesOfOtherProgramsAreRecognised(t *testing.T) {
	for name, tt := range packages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := NewArea(filepath.Join(t.TempDir(), "area"), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range slices.Sorted(maps.Keys(tt.files)) {
				if err := a.Put("pkg/"+f, strings.NewReader(tt.files[f])); err != nil {
					t.Fatal(err)
				}
			}
			l, err := arrangeOne(a, "pkg")
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = l.Name + ": " + strings.Join(contents(t, l.Dir), " ")
			}
			if (err != nil || got != tt.want) && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// contents lists the files of a folder with what is in them.
func contents(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, strings.TrimPrefix(path, dir+"/")+"="+string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A repository of several models, as KServe's storage has it, becomes a folder for each.
func TestArrangeTakesARepository(t *testing.T) {
	a, err := NewArea(filepath.Join(t.TempDir(), "area"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"store/a/1/model.onnx", "store/a/config.pbtxt", "store/b/2/model.onnx",
		"store/README.md"} {
		if err := a.Put(f, strings.NewReader(f)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := a.Arrange("store")
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []string{"a: 1/model.onnx=store/a/1/model.onnx config.pbtxt=store/a/config.pbtxt",
		"b: 2/model.onnx=store/b/2/model.onnx"} {
		if got := all[i].Name + ": " + strings.Join(contents(t, all[i].Dir), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzManifests: no manifest leads out of the model folder, and none makes a panic.
func FuzzManifests(f *testing.F) {
	f.Add([]byte(`{"model":{"modelName":"cat","serializedFile":"a/net.onnx"}}`))
	f.Add([]byte("flavors:\n  onnx:\n    data: a/net.onnx\nnames: {0: a}\n"))
	f.Add([]byte(`{"name":"iris","parameters":{"uri":"./a/net.onnx"},"id2label":{"0":"x"}}`))
	f.Add([]byte("name: ../iris\nmodule: bentoml.onnx\n"))
	f.Add([]byte("model_navigator_version: 1\nmodels_status: {a: {model_config: {format: onnx, path: a/net.onnx}}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		classNames(b)
		for _, read := range []func(*tree, []byte) (*foreign, error){torchServe, mlflow, mlServer, bentoModel,
			navigator} {
			files := &tree{files: []string{"a/net.onnx", "a/data", "net.py", "a.pb/saved_model.pb", "saved_model.onnx"}}
			found, err := read(files, b)
			if err != nil || found == nil {
				continue
			}
			for _, m := range found.moves(files) {
				if !filepath.IsLocal(m.to) {
					t.Errorf("%q leads to %q", b, m.to)
				}
			}
		}
	})
}
