package tunecmd

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nereid/store"
)

// asProgram is the variable that makes this test binary the program; see TestMain.
const asProgram = "NEREID_TEST_AS_PROGRAM"

// testProgram stores revisions without a server.
var testProgram = Program{
	DataDir:      func(given string) (string, error) { return given, nil },
	PythonFolder: func(dataDir string) string { return filepath.Join(dataDir, "runtime", "python") },
	GPUs:         func(*slog.Logger) int { return 0 },
	AddRevision: func(dataDir string, r store.Revision) error {
		st, err := store.Open(context.Background(), dataDir, store.Options{})
		if err != nil {
			return err
		}
		defer st.Close()
		_, err = st.AddRevision(context.Background(), r)
		return err
	},
}

// runProgram runs the program and returns what it prints.
func runProgram(t *testing.T, args ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "NEREID_DATA_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

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

// testModels is a repository of a model that returns its input, and of an ensemble that calls it twice.
func testModels(t *testing.T) string {
	return writeFiles(t, t.TempDir(), map[string]string{
		"plain/1/x": "", "pair/1/x": "",
		"plain/config.pbtxt": `backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }`,
		"pair/config.pbtxt": `platform: "ensemble" max_batch_size: 8
input { name: "I" data_type: TYPE_FP32 dims: 16 } output { name: "O" data_type: TYPE_FP32 dims: 16 }
ensemble_scheduling {
  step { model_name: "plain" model_version: -1
    input_map { key: "INPUT0" value: "I" } output_map { key: "OUTPUT0" value: "t" } }
  step { model_name: "plain" model_version: -1
    input_map { key: "INPUT0" value: "t" } output_map { key: "OUTPUT0" value: "O" } }
}`,
	})
}
