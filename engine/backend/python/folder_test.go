package python

import (
	"path/filepath"
	"testing"

	"nereid/engine/status"
	"nereid/engine/worker"
)

// The server runs code in the folder. So the default must be a folder that other users cannot make before.
func TestDefaultFolderIsPrivate(t *testing.T) {
	l := worker.NewLauncher(worker.Options{})
	defer l.Close()
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	b, err := New(Options{Launcher: l})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if want := filepath.Join(cache, "nereid", "python"); b.o.Folder != want {
		t.Errorf("the folder is %s, want %s", b.o.Folder, want)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := New(Options{Launcher: l}); status.CodeOf(err) != status.InvalidArg {
		t.Errorf("New without a home = %v, want an invalid argument", err)
	}
}
