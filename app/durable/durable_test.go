package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names are what a folder has.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestReplace(t *testing.T) {
	for _, tt := range []struct {
		name string
		was  fs.FileMode // 0: there is no file
		want fs.FileMode
	}{
		{"a new file", 0, 0o600},
		{"one that its group may write", 0o660, 0o660},
		{"one that nobody may write", 0o444, 0o444},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if tt.was != 0 {
				if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, tt.was); err != nil {
					t.Fatal(err)
				}
			}
			if err := Replace(path, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil || string(b) != "new" {
				t.Errorf("it holds %q, %v", b, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != tt.want {
				t.Errorf("its mode is %v, %v; want %v", info.Mode(), err, tt.want)
			}
			if got := names(t, dir); got != "file" {
				t.Errorf("the folder has %q", got)
			}
		})
	}
	t.Run("a place that a folder has", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "file", "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Replace(filepath.Join(dir, "file"), []byte("new"), 0o600); err == nil {
			t.Error("a folder was replaced")
		}
		if got := names(t, dir); got != "file" {
			t.Errorf("the folder has %q", got)
		}
	})
}

func TestRemoveLeftLeavesFilesThatAreBeingWritten(t *testing.T) {
	dir := t.TempDir()
	const killed, living = ".config.pbtxt.nereid-ABCDEFGHIJKLMNOP", ".config.pbtxt.nereid-ABCDEFGHIJKLMNO2"
	for _, name := range []string{killed, living, ".config.pbtxt", "x.nereid-ABCDEFGHIJKLMNOP"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(filepath.Join(dir, living))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Lock(f); err != nil {
		t.Fatal(err)
	}
	if err := RemoveLeft(dir); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), ".config.pbtxt "+living+" x.nereid-ABCDEFGHIJKLMNOP"; got != want {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

func TestRemoveAndRename(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "sub", "to")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.WriteFile(from, []byte("x"), 0o600),
		SyncTree(dir), Rename(from, to), Remove(from), Remove(to)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir) + names(t, filepath.Dir(to)); got != "sub" {
		t.Errorf("the folders have %q", got)
	}
	if err := Rename(from, to); err == nil {
		t.Error("a file that is not there was renamed")
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.WriteFile(from, []byte("content"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(from, when, when); err != nil {
		t.Fatal(err)
	}
	if err := Copy(from, to); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil || string(b) != "content" {
		t.Errorf("it holds %q, %v", b, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o700 || !info.ModTime().Equal(when) {
		t.Errorf("%v, %v", info, err)
	}
	if err := Copy(from, to); err == nil {
		t.Error("a file was copied over another")
	}
}
