package python

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A framework whose package has builds for some versions of Python is installed by one of these.
func TestPythonOfAFramework(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake interpreters are shell scripts")
	}
	root := t.TempDir()
	fake := func(name, version string) string {
		path := filepath.Join(root, name)
		text := fmt.Sprintf("#!/bin/sh\necho %s\n", version)
		if version == "" {
			text = "#!/bin/sh\nexit 127\n"
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newest, old := fake("given/python3", "3.11"), fake("given/python", "3.8")
	shim := fake("shims/python3.10", "") // as pyenv has it for a version that is not chosen
	nine, ten := fake("path/python3.9", "3.9"), fake("pyenv/versions/3.10.13/bin/python", "3.10")
	liar := filepath.Dir(fake("liar/python3.9", "3.12"))
	for _, tt := range []struct {
		name, given, path, pyenv string
		pythons                  []string
		want, err                string
	}{
		{name: "any version", given: newest, want: newest},
		{name: "the given one", given: old, pythons: []string{"3.9", "3.8"}, path: filepath.Dir(nine), want: old},
		{name: "one in PATH", given: newest, pythons: []string{"3.10", "3.9"}, path: filepath.Dir(nine), want: nine},
		{name: "one of pyenv behind its script", given: newest, pythons: []string{"3.10"}, path: filepath.Dir(shim),
			pyenv: filepath.Join(root, "pyenv"), want: ten},
		{name: "none", given: newest, pythons: []string{"3.10", "3.9"}, path: liar,
			err: "Toy needs Python 3.10 or 3.9: " + newest + " is Python 3.11, and neither PATH nor pyenv has one"},
		{name: "no interpreter", given: filepath.Join(root, "nosuch"), err: "there is no Python to install Toy for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PATH", tt.path+":/usr/bin:/bin")
			t.Setenv("PYENV_ROOT", filepath.Join(root, "none"))
			if tt.pyenv != "" {
				t.Setenv("PYENV_ROOT", tt.pyenv)
			}
			got, err := Framework{Title: "Toy", Pythons: tt.pythons}.interpreter(t.Context(), tt.given)
			if got != tt.want || (err == nil) != (tt.err == "") ||
				err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("interpreter = %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}
