package pyrt_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/backend/python/pyrt"
)

// interpreter returns a Python with numpy. Without one it skips, or fails where everything must run
// (NEREID_TEST_FULL=1).
func interpreter(t *testing.T) string {
	t.Helper()
	venv := os.Getenv("NEREID_VENV")
	if venv == "" {
		venv = filepath.Join("..", "..", "..", "..", ".cache", "venv")
	}
	python, err := filepath.Abs(filepath.Join(venv, "bin", "python"))
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		missing := t.Skipf
		if os.Getenv("NEREID_TEST_FULL") == "1" {
			missing = t.Fatalf
		}
		missing("no Python environment at %s (set NEREID_VENV): %v", venv, err)
	}
	return python
}

func TestModule(t *testing.T) {
	python := interpreter(t)
	for _, c := range []struct{ name, class string }{
		{"D025 D026 D029 lookups by name", "Lookups"},
		{"D027 data types", "Types"},
		{"D028 BYTES", "Bytes"},
		{"D030 ModelConfig", "ModelConfig"},
		{"D031 Tensor", "Tensor"},
		{"D031 D058 DLPack and BF16", "DLPack"},
		{"D032 InferenceRequest", "Request"},
		{"D034 InferenceResponse", "Response"},
		{"D037 D038 errors", "Errors"},
		{"memory shared with the server", "Arena"},
		{"requests like ones before", "Requests"},
		{"answers to a series", "Series"},
		{"batches of frameworks", "FrameworkBatches"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(python, "-B", filepath.Join("testdata", "pb_utils_test.py"),
				c.class).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "\nOK\n") || strings.Contains(string(out), "Ran 0 tests") {
				t.Fatalf("no test ran:\n%s", out)
			}
		})
	}
}

// Models run on interpreters from Python 3.8 on: what the modules are written in must be its grammar.
func TestModulesParseWithPython38(t *testing.T) {
	python := interpreter(t)
	names, err := fs.Glob(pyrt.Files, "*.py")
	if err != nil {
		t.Fatal(err)
	}
	backends, err := fs.Glob(pyrt.Backends, pyrt.BackendsFolder+"/*/model.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(backends) < 1 {
		t.Fatalf("the backends are %v", backends)
	}
	names = append(names, backends...)
	if len(names) < 7 {
		t.Fatalf("the files are %v", names)
	}
	for _, name := range names {
		source, err := fs.ReadFile(pyrt.Files, name)
		if err != nil {
			source, err = fs.ReadFile(pyrt.Backends, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 8))")
		cmd.Stdin = strings.NewReader(string(source))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := pyrt.Files.Open(pyrt.Main); err != nil {
		t.Error(err)
	}
}
