package get

import (
	"encoding/json"
	"os"
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
	if status, text := run(t.Context(), dir, folder); status != 0 {
		t.Fatal(text)
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"a", "b", "cat"}) {
		t.Errorf("the repository has %v", names)
	}
}
