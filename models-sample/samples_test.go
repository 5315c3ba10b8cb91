package modelssample

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const maxFileSize = 4 << 20

// models lists the sample models: the folders with a config.pbtxt.
func models(t *testing.T) []string {
	t.Helper()
	configs, err := filepath.Glob("*/config.pbtxt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range configs {
		names = append(names, filepath.Dir(c))
	}
	return names
}

func TestExpectedModelsAreThere(t *testing.T) {
	got := models(t)
	for _, want := range []string{
		"digits", "mlp", "add_sub", "add_sub_int32", "builtin_identity",
		"identity_fp32", "identity_fp16", "identity_bf16", "identity_int64", "identity_uint8", "identity_bool",
		"identity_bytes",
		"digits_py", "digits_pipeline", "words", "running_sum",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s/config.pbtxt; there are %v", want, got)
		}
	}
}

func TestFileSizes(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > maxFileSize {
			t.Errorf("%s has %d bytes, want at most %d", path, info.Size(), maxFileSize)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryFolderIsAModel catches a model whose configuration was not committed.
func TestEveryFolderIsAModel(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		config, err := os.ReadFile(filepath.Join(e.Name(), "config.pbtxt"))
		if err != nil {
			t.Error(err)
			continue
		}
		if want := `name: "` + e.Name() + `"`; !strings.Contains(string(config), want) {
			t.Errorf("%s/config.pbtxt lacks %s", e.Name(), want)
		}
		version := filepath.Join(e.Name(), "1")
		if info, err := os.Stat(version); err != nil || !info.IsDir() {
			t.Errorf("%s is no folder (%v); an empty one needs a .gitkeep", version, err)
		}
		_, err = os.Stat(filepath.Join(version, "model.onnx"))
		if onnx := strings.Contains(string(config), `backend: "onnxruntime"`); onnx != (err == nil) {
			t.Errorf("%s: onnxruntime in the configuration %v, model.onnx: %v", e.Name(), onnx, err)
		}
	}
}

type recordedTensor struct {
	Name     string            `json:"name"`
	Datatype string            `json:"datatype"`
	Shape    []int64           `json:"shape"`
	Data     []json.RawMessage `json:"data"`
	B64      *string           `json:"b64"`
}

type recordedRequest struct {
	Name      string           `json:"name"`
	Label     string           `json:"label"`
	Inputs    []recordedTensor `json:"inputs"`
	Outputs   []recordedTensor `json:"outputs"`
	Tolerance *float64         `json:"tolerance"`
	Source    string           `json:"source"`
	Image     *struct {
		File            string  `json:"file"`
		Input           string  `json:"input"`
		ScoresTolerance float64 `json:"scores_tolerance"`
	} `json:"image"`
}

func TestRecordedRequests(t *testing.T) {
	for _, model := range models(t) {
		files, err := filepath.Glob(filepath.Join(model, "requests", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		// Models in Python have separate tests (build/conformance/test_samples.py): what they do takes more than
		// one request.
		if _, err := os.Stat(filepath.Join(model, "1", "model.py")); len(files) == 0 && err != nil {
			t.Errorf("%s has no recorded request", model)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.ToSlash(file), ".json"), func(t *testing.T) { checkRequest(t, file) })
		}
	}
}

func checkRequest(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r recordedRequest
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(filepath.Base(file), ".json"); r.Name != want {
		t.Errorf("name is %q, want %q", r.Name, want)
	}
	if len(r.Inputs) == 0 || len(r.Outputs) == 0 {
		t.Errorf("%d inputs and %d outputs, want at least one of each", len(r.Inputs), len(r.Outputs))
	}
	if r.Tolerance == nil || *r.Tolerance < 0 || *r.Tolerance > 1e-3 {
		t.Errorf("tolerance %v, want 0 to 0.001", r.Tolerance)
	}
	if !strings.HasPrefix(r.Source, "onnxruntime ") && r.Source != "definition" {
		t.Errorf("source %q, want onnxruntime with its version, or definition", r.Source)
	}
	for _, x := range append(r.Inputs, r.Outputs...) {
		checkTensor(t, x)
	}
	if r.Image != nil {
		checkPicture(t, filepath.Join(filepath.Dir(file), r.Image.File))
		labels, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "labels.txt"))
		if err != nil || !slices.Contains(strings.Fields(string(labels)), r.Label) {
			t.Errorf("label %q is not in labels.txt (%v)", r.Label, err)
		}
	}
}

func checkTensor(t *testing.T, x recordedTensor) {
	sizes := map[string]int{"BOOL": 1, "UINT8": 1, "INT32": 4, "INT64": 8, "FP16": 2, "BF16": 2, "FP32": 4, "BYTES": 0}
	size, ok := sizes[x.Datatype]
	if !ok {
		t.Errorf("%s: datatype %q is unknown", x.Name, x.Datatype)
		return
	}
	n := 1
	for _, d := range x.Shape {
		n *= int(d)
	}
	if (x.Data == nil) == (x.B64 == nil) {
		t.Errorf("%s: want either data or b64", x.Name)
		return
	}
	if x.B64 == nil {
		if len(x.Data) != n {
			t.Errorf("%s: %d elements for shape %v", x.Name, len(x.Data), x.Shape)
		}
		return
	}
	raw, err := base64.StdEncoding.DecodeString(*x.B64)
	switch {
	case err != nil:
		t.Errorf("%s: %v", x.Name, err)
	case size > 0 && len(raw) != n*size:
		t.Errorf("%s: %d bytes for %s %v, want %d", x.Name, len(raw), x.Datatype, x.Shape, n*size)
	case size == 0 && countStrings(raw) != n:
		t.Errorf("%s: %d strings for shape %v", x.Name, countStrings(raw), x.Shape)
	}
}

// countStrings returns the number of length-prefixed elements in raw, or -1 if they do not end where raw does.
func countStrings(raw []byte) int {
	n := 0
	for ; len(raw) > 0; n++ {
		if len(raw) < 4 || uint64(len(raw)-4) < uint64(binary.LittleEndian.Uint32(raw)) {
			return -1
		}
		raw = raw[4+binary.LittleEndian.Uint32(raw):]
	}
	return n
}

func checkPicture(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestBytesRequestsAreHard keeps the cases that simpler servers get wrong: NUL bytes and bytes that are not UTF-8.
func TestBytesRequestsAreHard(t *testing.T) {
	for _, tt := range []struct{ file, contains string }{
		{file: "nul_bytes.json", contains: "a\x00b"},
		{file: "not_utf8.json", contains: "\xff\xfe\x00\x80"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("identity_bytes", "requests", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			var r recordedRequest
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			for _, x := range append(r.Inputs, r.Outputs...) {
				if x.B64 == nil {
					t.Errorf("%s is not base64", x.Name)
					continue
				}
				raw, err := base64.StdEncoding.DecodeString(*x.B64)
				if err != nil || !strings.Contains(string(raw), tt.contains) {
					t.Errorf("%s = %q, %v; want %q in it", x.Name, raw, err, tt.contains)
				}
			}
		})
	}
}

type font struct{ lineage, family, style, pkg, path string }

func readFonts(t *testing.T, name string) []font {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "build", "scripts", "models", name))
	if err != nil {
		t.Fatal(err)
	}
	var fonts []font
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		p := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(p) != 5 {
			t.Fatalf("%s: %q has %d fields, want 5", name, line, len(p))
		}
		fonts = append(fonts, font{p[0], p[1], p[2], p[3], p[4]})
	}
	return fonts
}

// TestFontListsShareNothing: no file, family or lineage (families of common origin) is in both lists, nor two families
// whose names begin with the same word, such as a family's bold sold under another name.
func TestFontListsShareNothing(t *testing.T) {
	train, test := readFonts(t, "fonts-train.txt"), readFonts(t, "fonts-test.txt")
	if len(train) < 100 || len(test) < 50 {
		t.Fatalf("%d fonts to train on and %d to test on, want at least 100 and 50", len(train), len(test))
	}
	for _, tt := range []struct {
		name string
		key  func(font) string
	}{
		{name: "path", key: func(f font) string { return f.path }},
		{name: "file name", key: func(f font) string { return strings.ToLower(filepath.Base(f.path)) }},
		{name: "family", key: func(f font) string { return strings.ToLower(f.family) }},
		{name: "first word of the family",
			key: func(f font) string { return strings.ToLower(strings.Fields(f.family)[0]) }},
		{name: "lineage", key: func(f font) string { return f.lineage }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trained := map[string]font{}
			for _, f := range train {
				trained[tt.key(f)] = f
			}
			for _, f := range test {
				if other, both := trained[tt.key(f)]; both {
					t.Errorf("%s and %s share %s %q", f.path, other.path, tt.name, tt.key(f))
				}
			}
		})
	}
}
