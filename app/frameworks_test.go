package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend/python"
	"nereid/engine/worker"
)

// install runs the command and returns its status and what it said.
func install(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, said strings.Builder
	code = installCommand(args, func(string) (string, bool) { return "", false }, &out, &said)
	return code, out.String(), said.String()
}

func TestInstallList(t *testing.T) {
	data := t.TempDir()
	f, _ := python.FindFramework("openvino")
	folder := f.Environment(pythonFolder(data))
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, ".complete"), nil, 0o600),
		os.WriteFile(filepath.Join(folder, "requirements.txt"), []byte(f.Requirements), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, out, _ := install(t, "--list", "--data-dir="+data)
	if code != 0 || !strings.Contains(out, "yes, in "+folder) || strings.Count(out, "\n") != len(python.Frameworks())+1 {
		t.Errorf("--list = %d\n%s", code, out)
	}
	code, out, _ = install(t, "--list", "--json", "--data-dir="+data)
	var all []framework
	if err := json.Unmarshal([]byte(out), &all); code != 0 || err != nil {
		t.Fatalf("--list --json = %d %v\n%s", code, err, out)
	}
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
		if f.Installed != (f.Name == "openvino") || len(f.Packages) == 0 || f.Size == "" || f.Environment == "" {
			t.Errorf("%+v", f)
		}
	}
	if !slices.Equal(names, frameworkNames()) {
		t.Errorf("the names are %v; want %v", names, frameworkNames())
	}
}

func TestInstallRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing named", nil, "name what to install: fil, openvino, pytorch, tensorflow"},
		{"an unknown one", []string{"caffe"}, `unknown framework "caffe"; there are fil, openvino`},
		{"no Python", []string{"--python=" + filepath.Join(t.TempDir(), "python3"), "fil"}, "there is no Python to install Treelite for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, said := install(t, append([]string{"--data-dir=" + t.TempDir()}, tt.args...)...)
			if code != 1 || !strings.Contains(said, tt.want) {
				t.Errorf("install %v = %d %q; want %q", tt.args, code, said, tt.want)
			}
		})
	}
}

// Backends of frameworks are there by their names, and give way to those of the backend directory.
func TestFrameworksGiveWay(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(folder, "tensorflow"), 0o700), os.WriteFile(filepath.Join(folder, "tensorflow", "model.py"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, folder string
		written      []string // in Python
	}{
		{"D064 D065 the frameworks' libraries", "", []string{"python", "fil", "pytorch"}},
		{"D001 a backend of the same name in the backend directory", folder, []string{"python", "fil", "pytorch", "tensorflow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := openDataDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			c, log := &Config{BackendDirectory: tt.folder}, slog.New(slog.DiscardHandler)
			launcher := worker.NewLauncher(log)
			defer launcher.Close()
			p, err := newPython(c, d, launcher, log)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			var all []string
			for _, b := range p.all {
				all = append(all, b.Name())
			}
			if !slices.Equal(all[:len(tt.written)], tt.written) || !slices.Contains(all, "tensorflow") || !slices.Contains(all, "openvino") || len(all) != 5 {
				t.Errorf("the backends are %v; want %v, then the others", all, tt.written)
			}
		})
	}
}
