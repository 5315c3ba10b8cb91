package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An archive of conda-pack in the model's folder is unpacked and adapted once. The model's process has the variables
// that the activation scripts of its packages set.
func TestCondaPack(t *testing.T) {
	fakeNumpy(t)
	real, err := filepath.EvalSymlinks(interpreter(t))
	if err != nil {
		t.Fatal(err)
	}
	env := t.TempDir()
	for name, text := range map[string]string{
		"bin/python3":  "#!/bin/sh\nexec " + real + " \"$@\"\n",
		"bin/activate": "export PATH\n",
		"bin/conda-unpack": "import os, sys\nopen(os.path.join(os.path.dirname(sys.argv[0]), " +
			"'unpacked'), 'a').write('x')\n",
		"etc/conda/activate.d/b.sh": "export NEREID_TEST_DATA=\"$NEREID_TEST_SHARE/data\"\n" +
			"PATH=\"$CONDA_PREFIX/tools:$PATH\"\n",
		"etc/conda/activate.d/a.sh":     "echo hello\nexport NEREID_TEST_SHARE=\"$CONDA_PREFIX/share\"\n",
		"etc/conda/activate.d/notes.md": "exit 1\n",
	} {
		path := filepath.Join(env, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(
			`parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }`),
		"m/1/model.py": code(`
root = os.environ["CONDA_PREFIX"]
path = os.environ["PATH"].split(":")
y = np.array([
    os.environ["NEREID_TEST_DATA"] == root + "/share/data", path[0] == root + "/tools", path[1] == root + "/bin",
    os.environ["LD_LIBRARY_PATH"].split(":")[0] == root + "/lib", open(root + "/bin/unpacked").read() == "x",
    not any("hello" in name for name in os.environ),
], np.float32)`, ""),
	})
	if s, _ := r.Model("m"); len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason,
		"m/env.tar.gz: no such file") {
		t.Errorf("without the archive: %+v", s.Versions)
	}
	pack(t, env, filepath.Join(r.root, "m", "env.tar.gz"))
	for _, name := range []string{"unpacked at the first load", "as it is at the next"} {
		t.Run("D052 "+name, func(t *testing.T) {
			if err := r.Reload(t.Context(), "m"); err != nil {
				t.Fatal(err)
			}
			a := r.one(request("m", map[string][]float32{"IN": {0}}))
			if got := a.floats("OUT"); a.err != nil || len(got) != 6 {
				t.Fatal(got, a.err)
			}
			for i, ok := range a.floats("OUT") {
				if ok != 1 {
					t.Errorf("number %d of what holds in the environment does not", i)
				}
			}
		})
	}
	if n := strings.Count(r.log.String(), "unpacking the environment of a model"); n != 1 {
		t.Errorf("the archive was unpacked %d times, want once", n)
	}
	t.Run("D052 D11 a script of a package that fails", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(env, "etc", "conda", "activate.d", "c.sh"),
			[]byte("echo nothing works >&2\nexit 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		pack(t, env, filepath.Join(r.root, "m", "env.tar.gz"))
		if err := r.Reload(t.Context(), "m"); err == nil || !strings.Contains(err.Error(),
			"nothing works") || !strings.Contains(err.Error(), "activate.d") {
			t.Errorf("Reload = %v; want what the script said", err)
		}
	})
}
