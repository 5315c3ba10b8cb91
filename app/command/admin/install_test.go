package admin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/command"
	"nereid/app/datadir"
	"nereid/engine/backend/python"
)

// install runs the command and returns its status and what it said.
func install(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, said strings.Builder
	env := &command.Env{Lookup: func(string) (string, bool) { return "", false }, Stdout: &out, Stderr: &said}
	code = Install(t.Context(), env, args)
	return code, out.String(), said.String()
}

func TestInstallList(t *testing.T) {
	data := t.TempDir()
	f, _ := python.FindFramework("openvino")
	folder := f.Environment(datadir.Python(data))
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, ".complete"), nil, 0o600),
		os.WriteFile(filepath.Join(folder, "requirements.txt"), []byte(f.Requirements), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, out, _ := install(t, "--list", "--data-dir="+data)
	if code != 0 || !strings.Contains(out, "yes, in "+folder) ||
		strings.Count(out, "\n") != len(python.Frameworks())+1 {
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

func TestOptionsOfCommandsOnTheDataFolderStandAfterArguments(t *testing.T) {
	data := "--data-dir=" + t.TempDir()
	for _, tt := range []struct {
		run  func(context.Context, *command.Env, []string) int
		args []string
		says string
	}{
		{Install, []string{"openvino", "--list", data}, "INSTALLED"},
		{Backup, []string{"file", data}, "database: "},
		{Restore, []string{"file", data}, "no such file"},
		{Support, []string{t.TempDir() + "/file", data}, "/file"},
		{Token, []string{"revoke", "id", data}, `no such token: "id"`},
	} {
		var out strings.Builder
		tt.run(t.Context(), &command.Env{Lookup: os.LookupEnv, Stdout: &out, Stderr: &out}, tt.args)
		if !strings.Contains(out.String(), tt.says) {
			t.Errorf("%q: %s", tt.args, &out)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing named", nil, "name what to install: fil, oneflow, openvino, python, pytorch, tensorflow"},
		{"an unknown one", []string{"caffe"}, `unknown framework "caffe"; there are fil, oneflow`},
		{"no Python", []string{"--python=" + filepath.Join(t.TempDir(), "python3"), "fil"},
			"there is no Python to install Treelite for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, said := install(t, append([]string{"--data-dir=" + t.TempDir()}, tt.args...)...)
			if code != 1 || !strings.Contains(said, tt.want) {
				t.Errorf("install %v = %d %q; want %q", tt.args, code, said, tt.want)
			}
		})
	}
}
