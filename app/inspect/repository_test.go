package inspect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/inspect"
)

// A model file is missing only where the backend does not find one either.
func TestModelFilesAreThoseOfTheBackend(t *testing.T) {
	root := t.TempDir()
	o := inspect.Options{AutoComplete: true}
	for _, m := range []struct {
		name, config, file string
		missing            bool
	}{
		{"openvino_usual", `backend: "openvino"`, "model.xml", false},
		{"openvino_onnx", `backend: "openvino"`, "model.onnx", false},
		{"openvino_paddle", `backend: "openvino"`, "model.pdmodel", false},
		{"openvino_named", `backend: "openvino" default_model_filename: "net.xml"`, "model.xml", true},
		{"pytorch_usual", `platform: "pytorch_libtorch"`, "model.pt", false},
		{"pytorch_exported", `platform: "pytorch_libtorch"`, "model.pt2", false},
		{"pytorch_module", `backend: "pytorch" runtime: "model.py"`, "model.py", false},
		{"tensorflow", `backend: "tensorflow"`, "model.onnx", true},
		{"forest", `backend: "fil"`, "checkpoint.tl", false},
		{"forest_of_another_kind", `backend: "fil" parameters { key: "model_type" value { string_value: "lightgbm" } }`,
			"checkpoint.tl", true},
	} {
		folder := filepath.Join(root, m.name)
		if err := os.MkdirAll(filepath.Join(folder, "1"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"config.pbtxt": m.config, filepath.Join("1", m.file): ""} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		missing := false
		for _, found := range inspect.Repositories(t.Context(), []string{root}, o).Models {
			for _, f := range found.Faults {
				missing = missing || found.Name == m.name && strings.HasPrefix(f.Message, "the model file is missing")
			}
		}
		if missing != m.missing {
			t.Errorf("%s: %s is missing: %v, want %v", m.name, m.file, missing, m.missing)
		}
	}
}
