package triton

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/inferencepb"
)

// The library is taken from the version's folder, the model's, then the backend directory.
func TestD001LibrariesAreFoundAsInTriton(t *testing.T) {
	root := t.TempDir()
	model, directory := filepath.Join(root, "m"), filepath.Join(root, "backends")
	version := filepath.Join(model, "1")
	write := func(parts ...string) string {
		t.Helper()
		path := filepath.Join(parts...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := NewFinder(Options{Directory: directory})
	cfg := &inferencepb.ModelConfig{Backend: "mine"}
	if f.OfModel(cfg, model, version) != nil || f.Of(cfg) != nil {
		t.Fatal("there is a backend without a library")
	}
	check := func(what, want string, named bool) {
		t.Helper()
		b := f.OfModel(cfg, model, version)
		if b == nil && !named {
			b = f.Of(cfg)
		}
		got, _ := b.(*Backend)
		if got == nil || got.library != want || got.Name() != cfg.Backend {
			t.Errorf("%s: %+v, want the library %s", what, got, want)
		}
	}
	check("the backend directory", write(directory, "mine", "libtriton_mine.so"), false)
	check("the model's folder", write(model, "libtriton_mine.so"), true)
	check("the version's folder", write(version, "libtriton_mine.so"), true)
	if names := f.Names(); !slices.Equal(names, []string{"mine"}) {
		t.Errorf("the backend directory has %v", names)
	}
	cfg.Backend, cfg.Runtime = "python", "libtriton_python.so"
	check("a name in runtime", write(directory, "python", "libtriton_python.so"), true)
	for _, name := range []string{"..", "../mine", "a\x00b", ""} {
		cfg.Backend, cfg.Runtime = name, ""
		if f.Of(cfg) != nil {
			t.Errorf("there is a backend %q", name)
		}
	}
	cfg.Backend, cfg.Runtime = "python", "../mine/libtriton_mine.so"
	if f.Of(cfg) != nil {
		t.Error("a library outside of the backend's folder is found")
	}
}

// A library that needs a newer C library is refused with both versions.
func TestD076ATooNewGlibcIsNamed(t *testing.T) {
	for _, tt := range []struct {
		need, have string
		ok         bool
	}{{"2.34", "2.36", true}, {"2.36", "2.36", true}, {"", "2.36", true}, {"2.2.5", "2.36", true},
		{"2.38", "2.36", false}, {"3.0", "2.36", false}, {"2.100", "2.36", false}} {
		err := dependencies{glibc: tt.need}.check("/x.so", tt.have)
		if (err == nil) != tt.ok {
			t.Errorf("a library for glibc %q on one with %s: %v", tt.need, tt.have, err)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.need) || !strings.Contains(err.Error(), tt.have)) {
			t.Errorf("%v does not name both versions", err)
		}
	}
	d, err := dependenciesOf("/proc/self/exe") // this test is linked with the C library
	if err != nil || d.glibc == "" || len(d.api) > 0 {
		t.Errorf("this program needs %+v, %v", d, err)
	}
}

// No file makes the reader of dependencies panic.
func FuzzDependencies(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "x.so")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = dependenciesOf(path) // only a panic is a fault
	})
}
