package backends

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nereid/app/options"
)

// A framework's backend is registered under its name unless the backend directory has one of that name.
func TestABackendDirectoryReplacesFrameworks(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(folder, "tensorflow"), 0o700),
		os.WriteFile(filepath.Join(folder, "tensorflow", "model.py"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, folder string
		written      []string // the backends that are written in Python; they come first
	}{
		{"D064 D065 the frameworks' libraries", "", []string{"python", "fil", "oneflow", "pytorch"}},
		{"D001 a backend of the same name in the backend directory", folder,
			[]string{"python", "fil", "oneflow", "pytorch", "tensorflow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := options.Default(false)
			c.Backends.Directory = tt.folder
			s, err := ForInspection(c, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var all []string
			for _, b := range s.All {
				all = append(all, b.Name())
			}
			all = all[slices.Index(all, "python"):] // the others are built in
			if !slices.Equal(all[:len(tt.written)], tt.written) || !slices.Contains(all, "tensorflow") ||
				!slices.Contains(all, "openvino") || len(all) != 6 {
				t.Errorf("the backends are %v; want %v, then the others", all, tt.written)
			}
		})
	}
}

// A backend of the backend directory is the only one of its name. The server runs models with it, lists it in the log's
// table, and validates with it.
func TestABackendDirectoryReplacesBuiltInBackends_D004(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"identity", "onnxruntime"} {
		if err := errors.Join(os.Mkdir(filepath.Join(folder, name), 0o700),
			os.WriteFile(filepath.Join(folder, name, "model.py"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c := options.Default(false)
	c.Backends.Directory = folder
	s, err := ForInspection(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files := map[string][]string{}
	for _, b := range s.All {
		file := ""
		if f, ok := b.(interface{ File() string }); ok {
			file = f.File()
		}
		files[b.Name()] = append(files[b.Name()], file)
	}
	for _, name := range []string{"identity", "onnxruntime"} {
		if want := filepath.Join(folder, name, "model.py"); !slices.Equal(files[name], []string{want}) {
			t.Errorf("the backends %s have the files %q; want only %s", name, files[name], want)
		}
	}
	if len(files["python"]) != 1 || len(files["square"]) != 1 {
		t.Errorf("the other backends are not there: %v", files)
	}
}
