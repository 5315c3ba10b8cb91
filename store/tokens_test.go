package store

import (
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
	one := Token{ID: "one-id", Name: "one", Scopes: "infer", Hash: []byte{1}, CreatedUS: 1}
	two := Token{ID: "two-id", Name: "two", Scopes: "infer", Hash: []byte{2}, CreatedUS: 2}
	for _, set := range [][]Token{{one, two}, {two}} {
		if err := s.SetTokens(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetTokens(t.Context(), []Token{one, one}); err == nil {
		t.Error("two tokens of one name are stored")
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
