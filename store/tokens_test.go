package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTokensSurviveAReopen: what was acknowledged is there after the next start, what was revoked is not.
func TestTokensSurviveAReopen(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"one", "two"} {
		if _, err := s.AddToken(t.Context(), Token{ID: name + "-id", Name: name, Scopes: "infer",
			Hash: []byte{byte(i)}, CreatedUS: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddToken(t.Context(), Token{ID: "x", Name: "one", Hash: []byte{9}}); !errors.Is(err, ErrExists) {
		t.Errorf("a second token of that name = %v, want ErrExists", err)
	}
	if err := s.DeleteToken(t.Context(), "one-id"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteToken(t.Context(), "one-id"); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoking twice = %v, want ErrNotFound", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Tokens(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "two" || got[0].Scopes != "infer" || got[0].CreatedUS != 2 {
		t.Errorf("Tokens = %+v, %v; want the second one", got, err)
	}
	for _, name := range []string{FileName, FileName + "-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v, want mode 0600", name, info, err)
		}
	}
}
