package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/app/inspect"
	"nereid/engine/backend/builtin"
)

// files writes files below a folder.
func writeFiles(t *testing.T, root string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// asProgram makes this test binary run as the program. A process can open ONNX Runtime only once, from one folder.
const asProgram = "NEREID_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(append([]string{"nereid"}, os.Args[1:]...), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program runs the program as from a shell, with one data folder.
type program struct{ data string }

func newProgram(t *testing.T) program { return program{t.TempDir()} }

func (p program) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "NEREID_DATA_DIR="+p.data)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func sampleFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../models-sample", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// identityText is the configuration of a model that returns its input.
const identityText = `backend: "identity" ` + identityTensors

const identityTensors = `input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } ` +
	`output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }`

func TestValidateCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := newProgram(t)
	mlp := sampleFile(t, "mlp/1/model.onnx")
	for _, tt := range []struct {
		name  string
		files map[string]string
		args  []string
		code  int
		want  []string // lines, with R/ for the repository

		options []string // before files' folder
	}{
		{name: "the samples", code: 0, args: []string{"../models-sample"},
			want: []string{"16 models, 0 with errors; 0 errors, 0 warnings"}},
		{name: "an empty repository", code: 0, files: map[string]string{"README": ""},
			want: []string{"0 models, 0 with errors; 0 errors, 0 warnings"}},
		{name: "every fault of a file, and of every file, with its place", code: 1, files: map[string]string{
			"a/config.pbtxt": "backend: \"identity\"\nmax_batch_size: -1\ninput { name: \"INPUT0\" data_type: " +
				"TYPE_FP32 dims: 0 }\noutput { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: 1 }\n",
			"a/1/x": "", "b/config.pbtxt": "backend \"identity\"\n", "b/1/x": "",
			"c/config.pbtxt": identityText, "c/1/x": "",
		}, want: []string{"R/a/config.pbtxt:2:17: max_batch_size is -1; ", "R/a/config.pbtxt:3:", "R/b/config.pbtxt:1:",
			"3 models, 2 with errors; "}},
		{name: "the name of another folder", code: 1, files: map[string]string{"a/config.pbtxt": "name: \"b\"\n" +
			identityText, "a/1/x": ""},
			want: []string{"R/a/config.pbtxt:1:7: unexpected directory name 'a' for model 'b', directory name must " +
				"equal model name; "}},
		{name: "no version folder, one with a wrong name", code: 1,
			files: map[string]string{"a/config.pbtxt": identityText, "a/v1/x": ""},
			want: []string{"R/a/config.pbtxt: warning: the folder v1 is no version and is not looked at; call it 1",
				"R/a/config.pbtxt: there is no version folder; "}},
		{name: "the model file is missing", code: 1,
			files: map[string]string{"a/config.pbtxt": `platform: "onnxruntime_onnx"`, "a/1/net.onnx": mlp},
			want: []string{"R/a/1: the model file is missing: there is no model.onnx; put it there, or name the " +
				"file in default_model_filename"}},
		{name: "a broken model file beside a whole one", code: 1,
			files: map[string]string{"a/1/model.onnx": "no model", "b/1/model.onnx": mlp},
			want:  []string{"R/a/1: ", "2 models, 1 with errors; "}},
		{name: "a configuration that contradicts the file", code: 1, files: map[string]string{"a/1/model.onnx": mlp,
			"a/config.pbtxt": "platform: \"onnxruntime_onnx\"\nmax_batch_size: 8\ninput { name: \"nosuch\" " +
				"data_type: " +
				"TYPE_FP32 dims: 784 }\n"},
			want: []string{"R/a/config.pbtxt:3:"}},
		{name: "parameters that the backend refuses or does not know", code: 1, files: map[string]string{
			"a/1/model.onnx": mlp, "a/config.pbtxt": "platform: \"onnxruntime_onnx\"\n" +
				"parameters { key: \"intra_op_thread_count\" value { string_value: \"many\" } }\n" +
				"parameters { key: \"enable_mem_arenas\" value { string_value: \"1\" } }\n"},
			want: []string{"R/a/config.pbtxt:2:", `parameter "intra_op_thread_count" is "many"; want a number`,
				"R/a/config.pbtxt:3:", `did you mean "enable_mem_arena"?`,
				"1 model, 1 with errors; 1 error, 1 warning"}},
		{name: "a policy that leaves nothing", code: 1, files: map[string]string{"a/1/x": "",
			"a/config.pbtxt": identityText + "\nversion_policy { specific { versions: 7 } }\n"},
			want: []string{"R/a/config.pbtxt:2:1: the version policy leaves no version to serve; choose among those " +
				"that are there: 1"}},
		{name: "nothing names the backend", code: 1, files: map[string]string{"a/1/weights": ""},
			want: []string{"R/a: Invalid model name: Could not determine backend for model 'a'"}},
		{name: "a backend that is not there", code: 1, files: map[string]string{"a/1/x": "",
			"a/config.pbtxt": `backend: "identiti"`},
			want: []string{"R/a/config.pbtxt:1:10: unable to find backend library for backend 'identiti', try " +
				`specifying runtime on the model configuration. did you mean "identity"?`}},
		{name: "a backend of Triton's that there is not", code: 1,
			files: map[string]string{"a/1/x": "", "a/config.pbtxt": strings.Replace(identityText, `"identity"`,
				`"dali"`, 1)},
			want: []string{`R/a/config.pbtxt:1:10: backend 'dali' needs NVIDIA's DALI as a library`,
				"its operators into an ONNX model"}},
		{name: "an ensemble without a part", code: 1, files: map[string]string{"e/1/x": "",
			"e/config.pbtxt": ensembleText("e", "nosuch")},
			want: []string{"R/e/config.pbtxt:5:", "the step's model 'nosuch' is in none of the repositories"}},
		{name: "ensembles in a cycle", code: 1, files: map[string]string{"e/1/x": "", "f/1/x": "",
			"e/config.pbtxt": ensembleText("e", "f"), "f/config.pbtxt": ensembleText("f", "e")},
			want: []string{"circular dependency between ensembles: e -> f -> e", "2 models, 2 with errors"}},
		{name: "an ensemble whose part has other tensors", code: 1,
			files: map[string]string{"e/1/x": "", "e/config.pbtxt": ensembleText("e", "a"), "a/1/x": "",
				"a/config.pbtxt": strings.ReplaceAll(identityText, "TYPE_FP32", "TYPE_INT32")},
			want: []string{"R/e/config.pbtxt:4:"}},
		{name: "an ensemble that fits", code: 0, files: map[string]string{"e/1/x": "",
			"e/config.pbtxt": ensembleText("e", "a"), "a/1/x": "", "a/config.pbtxt": identityText},
			want: []string{"2 models, 0 with errors; 0 errors, 0 warnings"}},
		{name: "a repository that is not there", code: 1, args: []string{"/nonexistent/models"},
			want: []string{"failed to read model repository /nonexistent/models"}},
		{name: "C073 an instance for a GPU where there is none", code: 1, options: []string{"--gpus=0"},
			files: map[string]string{"a/1/x": "", "a/config.pbtxt": identityText +
				"\ninstance_group { kind: KIND_GPU }\n"},
			want: []string{"R/a/config.pbtxt:2:", "no GPUs are available"}},
		{name: "C059 instances for GPUs where there are two", code: 0, options: []string{"--gpus=2"},
			files: map[string]string{"a/1/x": "", "a/config.pbtxt": identityText +
				"\ninstance_group { kind: KIND_GPU gpus: [ 0, 1 ] }\n"},
			want: []string{"1 model, 0 with errors; 0 errors, 0 warnings"}},
		{name: "C059 an instance for a third GPU of two", code: 1, options: []string{"--gpus=2"},
			files: map[string]string{"a/1/x": "", "a/config.pbtxt": identityText +
				"\ninstance_group { kind: KIND_GPU gpus: 2 }\n"},
			want: []string{"R/a/config.pbtxt:2:", "gpu id 2"}},
		{name: "C057 ONNX Runtime without a provider for GPUs", code: 0, options: []string{"--gpus=1"},
			files: map[string]string{"a/1/model.onnx": mlp, "a/config.pbtxt": "platform: " +
				"\"onnxruntime_onnx\"\ninstance_group { kind: KIND_GPU }\n"},
			want: []string{"R/a/config.pbtxt:2:", "warning: backend 'onnxruntime' is not set up for GPUs here; " +
				"install one that is, such as onnxruntime-gpu"}},
		{name: "a number of GPUs that is none", code: 2, options: []string{"--gpus=some"},
			files: map[string]string{"a/1/x": ""}},
		{name: "no repository", code: 2, args: []string{}},
		{name: "an unknown option", code: 2, args: []string{"--nosuch", "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := writeFiles(t, t.TempDir(), tt.files)
			args := tt.args
			if tt.files != nil {
				args = append(slices.Clone(tt.options), root)
			}
			code, out, errs := p.run(t, append([]string{"validate"}, args...)...)
			out = strings.ReplaceAll(out, root, "R")
			for _, want := range tt.want {
				if !strings.Contains("\n"+out, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if code != tt.code || (code == 2) != (errs != "") {
				t.Errorf("status %d, want %d; standard error %q", code, tt.code, errs)
			}
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

func TestValidateRefusesConfigurationsOfOtherFolders(t *testing.T) {
	root := writeFiles(t, t.TempDir(), map[string]string{"a/config.pbtxt": identityText, "a/1/x": ""})
	code, _, errs := newProgram(t).run(t, "validate", "--model-config-name=../x", root)
	if want := `--model-config-name: "../x" is no plain file name`; code != 2 || !strings.Contains(errs, want) {
		t.Errorf("status %d, standard error %q, want 2 and %q in it", code, errs, want)
	}
}

func TestValidateOfAModelFolderNamesTheRepository(t *testing.T) {
	root := writeFiles(t, t.TempDir(), map[string]string{"a/config.pbtxt": identityText, "a/1/x": ""})
	_, _, errs := newProgram(t).run(t, "validate", filepath.Join(root, "a"))
	if want := "nereid validate " + root; !strings.Contains(errs, want) {
		t.Errorf("standard error %q, want %q in it", errs, want)
	}
}

func ensembleText(name, part string) string {
	return `name: "` + name + `"
input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }
ensemble_scheduling { step {
  model_name: "` + part + `"
  model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }
`
}

func TestValidateJSON(t *testing.T) {
	p := newProgram(t)
	root := writeFiles(t, t.TempDir(), map[string]string{"a/config.pbtxt": "backend: \"identity\"\nmax_batch_size: " +
		"-1\n", "a/1/x": "", "a/3/x": "", "b/config.pbtxt": identityText, "b/1/x": ""})
	code, out, _ := p.run(t, "validate", "--json", root)
	raw := map[string]any{}
	if err := json.Unmarshal([]byte(out), &raw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	models, ok := raw["models"].([]any)
	if code != 1 || !ok || len(models) != 2 {
		t.Fatalf("status %d, %s", code, out)
	}
	for _, want := range []string{`"name": "a"`, `"versions": [`, `"line": 2`, `"col": 17`, `"path": "max_batch_size"`,
		`"severity": "error"`, `"faults": []`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
}

func TestConfigGenerate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := newProgram(t)
	mlp := sampleFile(t, "mlp/1/model.onnx")
	root := writeFiles(t, t.TempDir(), map[string]string{
		"m/1/model.onnx": mlp, "net.onnx": mlp, "p/1/model.py": "import os; os.abort()",
		"half/1/model.onnx": mlp, "half/config.pbtxt": "max_batch_size: 32\ninstance_group { count: 3 }\n",
		"bad/1/model.onnx": mlp, "bad/config.pbtxt": "max_batch_siz: 1\n", "torch/1/model.pt": "x", "x.bin": "x",
		"empty/readme": "",
	})
	const tensors = "input [\n  {\n    name: \"input\"\n    data_type: TYPE_FP32\n    dims: [ 784 ]\n  }\n]\n"
	for _, tt := range []struct {
		name, path string
		code       int
		want       []string
	}{
		{name: "a model folder", path: "m", want: []string{"platform: \"onnxruntime_onnx\"\n", "max_batch_size: 4\n",
			tensors, "dynamic_batching"}},
		{name: "a version folder", path: "m/1", want: []string{"max_batch_size: 4\n", tensors}},
		{name: "a file of any name", path: "net.onnx", want: []string{"default_model_filename: \"net.onnx\"\n",
			tensors}},
		{name: "what is written stays", path: "half", want: []string{"max_batch_size: 32\n", "count: 3\n", tensors}},
		{name: "a faulty configuration", path: "bad", code: 1, want: []string{"bad/config.pbtxt:1:1: "}},
		{name: "a Python model is not run", path: "p", code: 1, want: []string{"does not tell its inputs and " +
			"outputs without running"}},
		{name: "TorchScript", path: "torch/1/model.pt", code: 1, want: []string{"a model of backend 'pytorch' does " +
			"not tell its inputs and outputs"}},
		{name: "no model file", path: "x.bin", code: 1, want: []string{"is neither a folder nor a model file"}},
		{name: "no version folder", path: "empty", code: 1, want: []string{"has no version folder"}},
		{name: "nothing there", path: "nosuch.onnx", code: 1, want: []string{"nosuch.onnx"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := p.run(t, "config", "generate", filepath.Join(root, tt.path))
			for _, want := range tt.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if code != tt.code || strings.Contains(out, "name: \"m\"") || (code != 0) != (out == "") {
				t.Errorf("status %d, want %d", code, tt.code)
			}
			if t.Failed() {
				t.Logf("output:\n%s\n%s", out, errs)
			}
		})
	}
	t.Run("into a file, never over one", func(t *testing.T) {
		target := filepath.Join(root, "m/config.pbtxt")
		if code, out, errs := p.run(t, "config", "generate", "--output="+target, filepath.Join(root, "m")); code != 0 ||
			out != "" {
			t.Fatalf("%d %s %s", code, out, errs)
		}
		if code, _, errs := p.run(t, "config", "generate", "--output="+target, filepath.Join(root, "m")); code != 1 ||
			!strings.Contains(errs, "is there already") {
			t.Errorf("a second time: %d %s", code, errs)
		}
		if code, out, _ := p.run(t, "validate", root); code != 1 || strings.Contains(out, "/m/") {
			t.Errorf("what was generated has faults: %s", out)
		}
	})
}

// TestHostileConfigurations bounds what a configuration can cost.
func TestHostileConfigurations(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	big := strings.Repeat("# comment\n", 5<<20)
	for _, tt := range []struct{ name, text, want string }{
		{"B2 a file of 50 MB", big, "is larger than"},
		{"B2 a million repeated fields", strings.Repeat("input { }\n", 1_000_000), "config.pbtxt:"},
		{"B2 deep nesting", "parameters { key: \"a\" value { " + strings.Repeat("x { ", 100_000), "config.pbtxt:1:"},
		{"B2 an unknown field", "backend: \"identity\"\nmax_batchsize: 4\n", "config.pbtxt:2:1: "},
		{"B2 an unknown enum", "backend: \"identity\"\ninput { name: \"x\" data_type: TYPE_FLOAT dims: 1 }\n",
			"config.pbtxt:2:30: "},
		{"B2 a syntax error", "backend: \"identity\"\ninput [ { name: \"x\"\n", "config.pbtxt:2:"},
		{"B2 another model's name", "name: \"other\"\n" + identityText, "config.pbtxt:1:"},
		{"B2 max_batch_size -1", identityText + "\nmax_batch_size: -1\n", "config.pbtxt:2:17: "},
		{"B2 dims of 0", "backend: \"identity\"\ninput { name: \"x\" data_type: TYPE_FP32 dims: [ 0 ] }\n",
			"config.pbtxt:2:"},
		{"B2 dims of -5", "backend: \"identity\"\ninput { name: \"x\" data_type: TYPE_FP32 dims: [ -5 ] }\n",
			"config.pbtxt:2:"},
		{"B2 max_batch_size 2^31-1", identityText + "\nmax_batch_size: 2147483647\n", "config.pbtxt:2:17: "},
		{"B2 dims of 2^62", "backend: \"identity\"\ninput { name: \"x\" data_type: TYPE_FP32 dims: [ " +
			"4611686018427387904, 4 ] }\n", "config.pbtxt:2:"},
		{"B2 a billion instances", identityText + "\ninstance_group { count: 1000000000 }\n", "config.pbtxt:2:25: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := writeFiles(t, t.TempDir(), map[string]string{"m/config.pbtxt": tt.text, "m/1/x": ""})
			o := inspect.Options{AutoComplete: true}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			r := inspect.Repositories(t.Context(), []string{root}, o)
			took := time.Since(start)
			// in all; what lives at once is less
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4*200<<20 {
				t.Errorf("%d MB were taken", (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if len(r.Models) != 1 || r.Errors == 0 || !strings.Contains(r.Models[0].Faults.Error(), tt.want) {
				t.Errorf("faults %.300s, want %q", r.Models[0].Faults.Error(), tt.want)
			}
			if took > time.Minute { // usually a second; more on a busy machine
				t.Errorf("took %v", took)
			}
		})
	}
}

// Validation resolves names as the server does, and checks every model once.
func TestValidateEnsembles(t *testing.T) {
	backends := inspect.Options{AutoComplete: true, Backends: builtin.All()}
	ensemble := func(step string) string {
		return `platform: "ensemble" ` + identityTensors + `
			ensemble_scheduling { step { model_name: "` + step + `" model_version: -1
				input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }`
	}
	t.Run("A076 C051 models of one name in two repositories", func(t *testing.T) {
		first := writeFiles(t, t.TempDir(), map[string]string{"part/config.pbtxt": identityText, "part/1/x": "",
			"e/config.pbtxt": ensemble("part"), "e/1/x": ""})
		second := writeFiles(t, t.TempDir(), map[string]string{"part/config.pbtxt": strings.ReplaceAll(identityText,
			"TYPE_FP32", "TYPE_INT8"), "part/1/x": "",
			"e/config.pbtxt": ensemble("part"), "e/1/x": ""})
		o := backends
		if r := inspect.Repositories(t.Context(), []string{first, second}, o); r.Errors == 0 ||
			!strings.Contains(fmt.Sprint(r.Models), "--model-namespacing=true") {
			t.Errorf("without namespaces: %+v", r)
		}
		o.Namespaces = true
		r := inspect.Repositories(t.Context(), []string{first, second}, o)
		for _, m := range r.Models {
			if bad := m.Name == second+"/e"; (len(m.Faults.Errors()) > 0) != bad || bad &&
				!strings.Contains(m.Faults.Error(), "inconsistent data type") {
				t.Errorf("%s: %v", m.Name, m.Faults)
			}
		}
		if len(r.Models) != 4 {
			t.Errorf("%d models, want 4", len(r.Models))
		}
	})
	t.Run("B19 40 levels of ensembles with two ways at each", func(t *testing.T) {
		files := map[string]string{"a40/config.pbtxt": identityText, "a40/1/x": "", "b40/config.pbtxt": identityText,
			"b40/1/x": ""}
		for i := range 40 {
			for _, side := range []string{"a", "b"} {
				cfg := ensemble(fmt.Sprintf("a%d", i+1))
				cfg = strings.Replace(cfg, `output_map { key: "OUTPUT0" value: "OUTPUT0" } }`,
					`output_map { key: "OUTPUT0" value: "T" } }
					step { model_name: "`+fmt.Sprintf("b%d", i+1)+`" model_version: -1
						input_map { key: "INPUT0" value: "T" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }`, 1)
				files[fmt.Sprintf("%s%d/config.pbtxt", side, i)] = cfg
				files[fmt.Sprintf("%s%d/1/x", side, i)] = ""
			}
		}
		root := writeFiles(t, t.TempDir(), files)
		begin := time.Now()
		if r := inspect.Repositories(t.Context(), []string{root}, backends); len(r.Models) != 82 || r.Errors != 0 {
			t.Errorf("%d models, %d errors: %.500v", len(r.Models), r.Errors, r.Models)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
