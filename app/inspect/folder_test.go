package inspect_test

import (
	"os"
	"path/filepath"
	"testing"

	"nereid/app/inspect"
)

// A folder of one model is told from a repository. The name of the folder is no pattern.
func TestModelFolderIsToldFromARepository(t *testing.T) {
	repository := filepath.Join(t.TempDir(), "models[1]")
	model := filepath.Join(repository, "m[2]")
	if err := os.MkdirAll(filepath.Join(model, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "1", "model.onnx"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if above, is := inspect.ModelFolder(model); !is || above != repository {
		t.Errorf("ModelFolder of a model = %q, %v; want %q", above, is, repository)
	}
	if _, is := inspect.ModelFolder(repository); is {
		t.Error("the repository is taken for a model")
	}
}
