package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filled is a store with an event and a setting, open and in use.
func filled(t *testing.T, dir, kind string) *Store {
	t.Helper()
	s := open(t, dir, Options{})
	s.RecordEvent(Event{Kind: kind})
	settle(t, s)
	if err := s.SetSetting(t.Context(), "k", json.RawMessage(`"`+kind+`"`)); err != nil {
		t.Fatal(err)
	}
	return s
}

// holds checks that a folder's database is what filled made.
func holds(t *testing.T, dir, kind string) {
	t.Helper()
	s := open(t, dir, Options{})
	defer s.Close()
	v, err := s.Setting(t.Context(), "k")
	events, err2 := s.Events(t.Context(), EventQuery{})
	if err != nil || err2 != nil || string(v) != `"`+kind+`"` || len(events) != 1 || events[0].Kind != kind ||
		len(s.Warnings()) != 0 {
		t.Errorf("%s holds %s and %+v with warnings %q; want what %s was: %v, %v", dir, v, events, s.Warnings(), kind,
			err, err2)
	}
}

func TestBackupAndRestore(t *testing.T) {
	ctx := t.Context()
	dir, target := filepath.Join(t.TempDir(), "a folder'with #signs"), filepath.Join(t.TempDir(), "it's a backup.db")
	s := filled(t, dir, "one")
	t.Run("G027 a backup while the database is in use", func(t *testing.T) {
		if err := Backup(ctx, dir, target); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(target)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup has mode %v, %v; it holds what only its owner is to see", info.Mode(), err)
		}
		if names, err := filepath.Glob(target + "*"); err != nil || len(names) != 1 {
			t.Errorf("files %v, want one", names)
		}
		if err := s.SetSetting(ctx, "k", json.RawMessage(`"later"`)); err != nil {
			t.Errorf("the database cannot be written after it: %v", err)
		}
	})
	t.Run("G027 restored on another machine", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "new")
		if aside, err := Restore(ctx, target, other); err != nil || aside != "" {
			t.Fatalf("Restore = %q, %v", aside, err)
		}
		holds(t, other, "one")
	})
	t.Run("G027 restored over what is there, which is kept", func(t *testing.T) {
		other := t.TempDir()
		if err := filled(t, other, "two").Close(); err != nil {
			t.Fatal(err)
		}
		aside, err := Restore(ctx, target, other)
		if err != nil || !strings.Contains(aside, FileName+".replaced-") {
			t.Fatalf("Restore = %q, %v", aside, err)
		}
		holds(t, other, "one")
		back := t.TempDir()
		if _, err := Restore(ctx, aside, back); err != nil {
			t.Fatal(err)
		}
		holds(t, back, "two")
	})
	t.Run("G027 of an older schema", func(t *testing.T) {
		old := t.TempDir()
		steps, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		db := openDB(dsn(filepath.Join(old, FileName), writerParams), 1)
		if err := errors.Join(migrate(ctx, db, steps[:1]), db.Close()); err != nil {
			t.Fatal(err)
		}
		file, other := filepath.Join(t.TempDir(), "b"), t.TempDir()
		if err := Backup(ctx, old, file); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(ctx, file, other); err != nil {
			t.Fatal(err)
		}
		if err := open(t, other, Options{}).SetSetting(ctx, "k", json.RawMessage("1")); err != nil {
			t.Errorf("it cannot be used after Open: %v", err)
		}
	})
}

func TestBackupRefuses(t *testing.T) {
	ctx := t.Context()
	good := t.TempDir()
	if err := filled(t, good, "good").Close(); err != nil {
		t.Fatal(err)
	}
	file := func(t *testing.T, text string) string {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), FileName)
		makeDatabase(t, path, "")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 3 * 4096; i < len(b); i++ {
			b[i] = 0xee
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := func(s string) func(t *testing.T) string {
		return func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), FileName)
			makeDatabase(t, path, s)
			return path
		}
	}
	for _, tt := range []struct {
		name   string
		source func(t *testing.T) string
		want   string
	}{
		{"no such file", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "no such file"},
		{"no database", func(t *testing.T) string { return file(t, strings.Repeat("hello\n", 1000)) }, "is damaged"},
		{"an empty file", func(t *testing.T) string { return file(t, "") }, "is empty"},
		{"another program's database", script("CREATE TABLE theirs (a); PRAGMA application_id = 77"),
			"not a Nereid database"},
		{"damage inside", damaged, "is damaged"},
		{"a newer schema", script("CREATE TABLE a (x); PRAGMA application_id = 1314015556; PRAGMA user_version = 9999"),
			"a newer version wrote it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source, dir := tt.source(t), t.TempDir()
			if err := filled(t, dir, "here").Close(); err != nil {
				t.Fatal(err)
			}
			if aside, err := Restore(ctx, source, dir); err == nil || !strings.Contains(err.Error(), tt.want) ||
				aside != "" {
				t.Errorf("Restore = %q, %v; want a refusal with %q", aside, err, tt.want)
			}
			holds(t, dir, "here")
			if filepath.Base(source) != FileName {
				return
			}
			target := filepath.Join(t.TempDir(), "b")
			if err := Backup(ctx, filepath.Dir(source), target); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Backup = %v, want a refusal with %q", err, tt.want)
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("a refused backup leaves a file")
			}
		})
	}
	t.Run("a file that is there is never written over", func(t *testing.T) {
		path := file(t, "precious")
		if err := Backup(ctx, good, path); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("Backup = %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
			t.Errorf("it holds %q, %v", b, err)
		}
	})
}
