package code

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes a model folder of these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// text shows a list in one line.
func text(l List) string {
	var all []string
	for _, c := range l {
		all = append(all, c.Path+": "+c.Why)
	}
	return strings.Join(all, "\n")
}

func TestFind_B13(t *testing.T) {
	environment := `parameters { key: "EXECUTION_ENV_PATH" value { string_value: "%" } }`
	for _, tt := range []struct {
		name, config string
		files        map[string]string
		want         string // of the first line; "": nothing runs
	}{
		{"an ONNX model", `backend: "onnxruntime"`, map[string]string{"1/model.onnx": "\x08\x07", "labels": "a"}, ""},
		{"requirements that nobody installs", `backend: "onnxruntime"`,
			map[string]string{"1/model.onnx": "x", "requirements.txt": "x"}, ""},
		{"requirements beside a Python model", `backend: "python"`, map[string]string{"requirements.txt": "x"},
			"requirements.txt: packages that are installed"},
		{"requirements of a backend that is not known", `backend: "mine"`, map[string]string{"1/requirements.txt": "x"},
			"1/requirements.txt: packages"},
		{"the backend by the model's name", "", map[string]string{"1/model.python": "x"},
			"1/model.python: a Python program"},
		{"the backend by a file", "", map[string]string{"1/model.savedmodel/saved_model.pb": "x"},
			"1/model.savedmodel: a graph of TensorFlow"},
		{"a file for a GPU", `backend: "python" cc_model_filenames { key: "8.0" value: "w.dat" }`,
			map[string]string{"1/w.dat": "x"}, "1/w.dat: a Python program"},
		{"a library in two places", `model_operations { op_library_filename: "o" }`,
			map[string]string{"o": "x", "1/o": "x"}, "1/o: a native library, by op_library_filename\no: a native"},
		{"a library that is not there", `model_operations { op_library_filename: "../o" }`, nil,
			`config.pbtxt: it names "../o": a native library`},
		{"an environment beside the model", strings.Replace(environment, "%", "$$TRITON_MODEL_DIRECTORY/../e", 1), nil,
			`config.pbtxt: it names "../e": the environment`},
		{"another configuration", "", map[string]string{
			"configs/x.pbtxt": `backend: "python" default_model_filename: "w"`, "1/w": "x"}, "1/w: a Python program"},
		{"a configuration that is too large", "", map[string]string{"configs/x.pbtxt": strings.Repeat("#", 2<<20)},
			"configs/x.pbtxt: a configuration that is not read here"},
		{"an execution provider",
			`optimization { execution_accelerators { cpu_execution_accelerator { name: "mine" } } }`, nil,
			`config.pbtxt: it names "mine": an execution provider that this server does not know`},
		{"a library of a session", `parameters { key: "ep.mine.library_path" value { string_value: "p" } }`,
			map[string]string{"1/p": "x"}, "1/p: a native library, by the parameter ep.mine.library_path"},
		{"a library of a batching strategy",
			`parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/tmp/s" } }`, nil,
			`config.pbtxt: it names "/tmp/s": a native library, by the parameter TRITON_BATCH_STRATEGY_PATH`},
		{"a file that a session writes",
			`parameters { key: "session.collect_node_memory_stats_to_file" value { string_value: "/tmp/x" } }`, nil,
			`config.pbtxt: it names "/tmp/x": a file that ONNX Runtime reads or writes`},
		{"a switch of a session",
			`parameters { key: "session.use_external_initializer_file_buffers_directly" value { string_value: "1" } }`,
			nil, ""},
		{"a script", "", map[string]string{"1/x": "#!/bin/sh"}, "1/x: a script"},
		{"a text that begins alike", "", map[string]string{"1/x": "# a comment", "1/y": "M"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := "m"
			if strings.HasPrefix(tt.name, "the backend by the model's name") {
				name = "m.python"
			}
			got, err := Find(folder(t, tt.files), name, tt.config)
			if err != nil || tt.want == "" && len(got) > 0 || !strings.HasPrefix(text(got), tt.want) {
				t.Errorf("Find = %s, %v; want %q", text(got), err, tt.want)
			}
		})
	}
}

func TestAdded_B13(t *testing.T) {
	dir := folder(t, map[string]string{"1/w.bin": "x", "1/model.py": "x", "1/a.so": "\x7fELF"})
	python, library := `backend: "python"`, `backend: "python" model_operations { op_library_filename: "w.bin" }`
	for _, tt := range []struct {
		name          string
		before, after *string
		want          string
	}{
		{"the same", &python, &python, ""},
		{"a library more", &python, &library, "1/w.bin: a native library"},
		{"a library less", &library, &python, ""},
		{"the first text", nil, &library, "1/w.bin: a native library"},
		{"no text", &library, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Added(dir, "m", tt.before, tt.after)
			if err != nil || (tt.want == "") != (len(got) == 0) || !strings.HasPrefix(text(got), tt.want) {
				t.Errorf("Added = %s, %v; want %q", text(got), err, tt.want)
			}
		})
	}
}

// zipOf makes a zip with one file.
func zipOf(t testing.TB, name string, mode fs.FileMode) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: name}
	h.SetMode(mode)
	if _, err := z.CreateHeader(h); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipOf(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestContent_B13(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar" + strings.Repeat("\x00", 250)
	for _, tt := range []struct{ name, content, want string }{
		{"nothing", "", ""},
		{"an ELF file", "\x7fELF", "a native library or program"},
		{"a zip of weights", zipOf(t, "w.npy", 0o644), ""},
		{"a zip with a program", zipOf(t, "run", 0o755), "an archive with run, a program"},
		{"a zip of PyTorch", zipOf(t, "m/data.pkl", 0o644), "an archive with m/data.pkl, a pickle"},
		{"a zip of which only the start is there", "PK\x03\x04", ""},
		{"a tar", tar, "an archive, which can have programs in it"},
		{"a compressed tar", gzipOf(t, tar), "compressed: an archive"},
		{"a compressed script", gzipOf(t, "#!/bin/sh"), "compressed: a script"},
		{"compressed weights", gzipOf(t, "weights"), ""},
		{"a pickle", "\x80\x04\x95", "a pickle"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := content(strings.NewReader(tt.content), int64(len(tt.content)))
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("content = %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzContent: any file is looked at without a panic, and with little memory.
func FuzzContent(f *testing.F) {
	f.Add([]byte(zipOf(f, "a.py", 0o644)))
	f.Add([]byte(gzipOf(f, "#!x")))
	f.Add([]byte("BZh91AY&SY"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00abc"))
	f.Fuzz(func(_ *testing.T, b []byte) { content(bytes.NewReader(b), int64(len(b))) })
}
