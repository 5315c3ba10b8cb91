package runtime

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
)

// A process sees the GPU of its instance, by its name in the server's own CUDA_VISIBLE_DEVICES.
func TestProcessSeesOnlyItsGPU(t *testing.T) {
	const gpu, cpu, own = inferencepb.ModelInstanceGroup_KIND_GPU, inferencepb.ModelInstanceGroup_KIND_CPU,
		inferencepb.ModelInstanceGroup_KIND_MODEL
	for _, tt := range []struct {
		name, list string // "unset": there is none
		p          backend.Placement
		want       []string
	}{
		{"C059 the server sees all", "unset", backend.Placement{Kind: gpu, Device: 1},
			[]string{"CUDA_VISIBLE_DEVICES=1"}},
		{"C059 the server sees some", "2, GPU-77", backend.Placement{Kind: gpu, Device: 0},
			[]string{"CUDA_VISIBLE_DEVICES=2"}},
		{"C059 one by its UUID", "2, GPU-77", backend.Placement{Kind: gpu, Device: 1},
			[]string{"CUDA_VISIBLE_DEVICES=GPU-77"}},
		{"C059 a processor", "2", backend.Placement{Kind: cpu}, []string{"CUDA_VISIBLE_DEVICES=-1"}},
		{"C059 the model's own choice", "2", backend.Placement{Kind: own}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CUDA_VISIBLE_DEVICES", tt.list)
			if tt.list == "unset" {
				if err := os.Unsetenv("CUDA_VISIBLE_DEVICES"); err != nil {
					t.Fatal(err)
				}
			}
			if got := visible(tt.p); !slices.Equal(got, tt.want) {
				t.Errorf("visible(%+v) with %q = %q, want %q", tt.p, tt.list, got, tt.want)
			}
		})
	}
}

// The library of the installed environment is found. The name of its folder is no pattern.
func TestInstalledEnvironmentIsFound(t *testing.T) {
	environment := filepath.Join(t.TempDir(), "openvino[1]")
	library := filepath.Join(environment, "lib", "python3.12", "site-packages", "openvino", "libs",
		"libopenvino_c.so.2400")
	if err := os.MkdirAll(filepath.Dir(library), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := framed(t, "openvino", Options{Environment: environment})
	if got := b.find(t.Context()); !slices.Equal(got, []string{library}) {
		t.Errorf("find = %q, want %q", got, library)
	}
}

// The machine's Python runs again only when it, or a folder on its path, has changed.
func TestMachinePythonRunsOnlyAfterAChange(t *testing.T) {
	real, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err) // other tests need it too
	}
	packages, scratch := t.TempDir(), t.TempDir()
	asked := filepath.Join(scratch, "asked")
	python := filepath.Join(scratch, "python3")
	if err := os.WriteFile(python, []byte("#!/bin/sh\necho x >>'"+asked+"'\nexec '"+real+"' \"$@\"\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", packages)
	b := framed(t, "openvino", Options{Environment: filepath.Join(scratch, "none"), Interpreter: python})
	library := filepath.Join(packages, "openvino", "libs", "libopenvino_c.so.1")
	for _, tt := range []struct {
		name string
		do   func() error
		want string
		asks int // since the beginning
	}{
		{"not installed", func() error { return nil }, "libopenvino_c.so", 1},
		{"still not", func() error { return nil }, "libopenvino_c.so", 1},
		{"installed", func() error {
			if err := os.MkdirAll(filepath.Dir(library), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(packages, "openvino", "__init__.py"), nil, 0o600); err != nil {
				return err
			}
			return os.WriteFile(library, nil, 0o600)
		}, library, 2},
		{"still installed", func() error { return nil }, library, 2},
		{"another interpreter by the same name", func() error {
			text, err := os.ReadFile(python)
			if err != nil {
				return err
			}
			if err := os.WriteFile(python+".new", append(text, "# another\n"...), 0o700); err != nil {
				return err
			}
			return os.Rename(python+".new", python)
		}, library, 3},
		{"taken away", func() error { return os.RemoveAll(filepath.Join(packages, "openvino")) }, "libopenvino_c.so",
			4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); err != nil {
				t.Fatal(err)
			}
			if got := b.find(t.Context()); len(got) == 0 || got[0] != tt.want {
				t.Errorf("find = %q, want %q", got, tt.want)
			}
			said, err := os.ReadFile(asked)
			if n := strings.Count(string(said), "x"); err != nil || n != tt.asks {
				t.Errorf("the interpreter was asked %d times, want %d: %v", n, tt.asks, err)
			}
		})
	}
}
