package get

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArchivesAndFoldersOfThisMachineArePlaced(t *testing.T) {
	work := t.TempDir()
	mar := filepath.Join(work, "cats.mar")
	b := archive(t, map[string][]byte{"net.onnx": []byte("graph"), "my_handler.py": []byte("code"),
		"MAR-INF/MANIFEST.json": []byte(`{"model":{"modelName":"cat","serializedFile":"net.onnx",
			"handler":"my_handler"}}`)})
	folder := filepath.Join(work, "store")
	for path, content := range map[string]string{mar: string(b), folder + "/a/1/model.onnx": "a",
		folder + "/b/1/model.onnx": "b"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	status, text := run(t.Context(), dir, mar)
	if status != 0 || !strings.Contains(text, "the handler my_handler is not taken") {
		t.Fatalf("status %d: %s", status, text)
	}
	wantOnly(t, dir, "cat", []byte("graph"))
	var p provenance
	b, err := os.ReadFile(filepath.Join(dir, "cat", "provenance.json"))
	if err != nil || json.Unmarshal(b, &p) != nil || p.From != mar || p.SHA256 == "" {
		t.Errorf("%s, %v", b, err)
	}
	if status, text := run(t.Context(), dir, folder, "--name=x"); status == 0 ||
		!strings.Contains(text, "which cannot all be named x") {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := run(t.Context(), dir, folder); status != 0 || strings.Contains(text, "SHA-256") {
		t.Fatalf("status %d: %s; a folder has no sum", status, text)
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"a", "b", "cat"}) {
		t.Errorf("the repository has %v", names)
	}
}

// A bento is a tar archive, compressed by xz. One of its models cannot be served, so nothing of it is taken.
func TestModelsOfABentoArePlaced(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("the program xz is not installed")
	}
	work := t.TempDir()
	pack := func(name string, files map[string]string) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, path := range slices.Sorted(maps.Keys(files)) {
			h := tar.Header{Typeflag: tar.TypeReg, Name: "./" + path, Size: int64(len(files[path])), Mode: 0o600}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(files[path])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(work, name)
		xz := exec.CommandContext(t.Context(), "xz", "--stdout")
		xz.Stdin = &b
		out, err := xz.Output()
		if err != nil || os.WriteFile(path, out, 0o600) != nil {
			t.Fatal(err)
		}
		return path
	}
	files := map[string]string{"bento.yaml": "service: service:svc\n", "src/service.py": "code",
		"models/cat/1/model.yaml": "name: cat\nmodule: bentoml.onnx\n", "models/cat/1/saved_model.onnx": "graph",
		"models/dog/1/model.yaml": "name: dog\nmodule: bentoml.torchscript\n", "models/dog/1/saved_model.pt": "script"}
	dir := t.TempDir()
	good := pack("pets.bento", files)
	if status, text := run(t.Context(), dir, good); status == 0 || !strings.Contains(text, "agree with --allow-code") {
		t.Errorf("a pickle in the place of TorchScript: status %d: %s", status, text)
	}
	if status, text := run(t.Context(), dir, good, "--allow-code"); status != 0 {
		t.Fatal(text)
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"cat", "dog"}) {
		t.Errorf("the repository has %v", names)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "dog/1/model.pt")); err != nil || string(b) != "script" {
		t.Errorf("%q, %v", b, err)
	}
	files["models/dog/1/model.yaml"] = "name: dog\nmodule: bentoml.pytorch\n"
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(work, "cut.bento")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	bomb := pack("bomb.bento", map[string]string{"model.onnx": strings.Repeat("\x00", 64<<20)})
	for path, want := range map[string]string{pack("python.bento", files): "which need its Python code",
		cut: "cannot be unpacked", bomb: "zip bomb"} {
		dir := t.TempDir()
		if status, text := run(t.Context(), dir, path); status == 0 || !strings.Contains(text, want) {
			t.Errorf("%s: status %d: %s, want %q", path, status, text, want)
		}
		if names := entries(t, dir); len(names) > 0 {
			t.Errorf("%s left %v", path, names)
		}
	}
}
