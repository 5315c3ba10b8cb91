package access

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nereid/store"
)

func open(t *testing.T, o Options) *Tokens {
	t.Helper()
	if o.Store == nil {
		s, err := store.OpenMemory(t.Context(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		o.Store = s
	}
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	return New(t.Context(), o)
}

func create(t *testing.T, tokens *Tokens, name string, scope Scope) (Token, string) {
	t.Helper()
	made, text, err := tokens.Create(t.Context(), name, scope)
	if err != nil {
		t.Fatal(err)
	}
	return made, text
}

func TestTokenIsChecked(t *testing.T) {
	tokens := open(t, Options{Environment: "secret"})
	for value, want := range map[string]bool{
		"secret": true, "Bearer secret": true, "bearer secret": true,
		"": false, "Bearer": false, "Bearer ": false, "secre": false, "secrets": false, "SECRET": false,
		"Basic secret": false,
	} {
		for _, needs := range []Scope{Infer, Control, Admin, Any} {
			err := tokens.Check(Request{Authorization: value, Needs: needs})
			var r *Refusal
			if (err == nil) != want || err != nil && (!errors.As(err, &r) || r.Scope) {
				t.Errorf("Check(%q) = %v, want pass %v", value, err, want)
			}
		}
	}
	if err := open(t, Options{}).Check(Request{Needs: Admin}); err != nil {
		t.Errorf("a server without a token asks for one: %v", err)
	}
	if open(t, Options{Always: true}).Check(Request{Needs: Any}) == nil {
		t.Error("a server that others can reach passes everybody while it has no token")
	}
}

// Whoever serves without a token learns from the log when that ends.
func TestTheFirstTokenIsNotedInTheLog_B082(t *testing.T) {
	for _, tt := range []struct {
		name  string
		o     Options
		lines int
	}{{"nobody needed one", Options{}, 1}, {"everybody did", Options{Always: true}, 0}} {
		var log bytes.Buffer
		tt.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		tokens := open(t, tt.o)
		create(t, tokens, "a", Infer)
		create(t, tokens, "b", Infer)
		if n := strings.Count(log.String(), "clients need a token from now on"); n != tt.lines {
			t.Errorf("%s: %d lines, want %d, in\n%s", tt.name, n, tt.lines, log.String())
		}
	}
}

// A token that passes was used; one that is refused was not. A change of the other tokens keeps the time.
func TestLastUseOfATokenIsShown(t *testing.T) {
	tokens := open(t, Options{})
	_, used := create(t, tokens, "used", Infer)
	_, refused := create(t, tokens, "refused", Infer)
	before := time.Now().Truncate(time.Second).UnixMicro()
	if err := tokens.Check(Request{Authorization: used, Needs: Infer}); err != nil {
		t.Fatal(err)
	}
	if tokens.Check(Request{Authorization: refused, Needs: Admin}) == nil {
		t.Fatal("a token for inference opens the GUI")
	}
	create(t, tokens, "another", Infer)
	for _, k := range tokens.List() {
		if k.Name == "used" && k.UsedUS < before || k.Name != "used" && k.UsedUS != 0 {
			t.Errorf("%s was used at %d, and the test began at %d", k.Name, k.UsedUS, before)
		}
	}
}

func TestScopesLimitTokens_B082(t *testing.T) {
	tokens := open(t, Options{})
	for _, tt := range []struct {
		name  string
		scope Scope
		opens []Scope
		shuts []Scope
	}{
		{"infer", Infer, []Scope{Infer, Any}, []Scope{Control, Admin}},
		{"control", Control, []Scope{Control, Any}, []Scope{Infer, Admin}},
		{"both", Infer | Control, []Scope{Infer, Control, Any}, []Scope{Admin}},
		{"admin", Admin, []Scope{Infer, Control, Admin, Any}, nil},
	} {
		_, text := create(t, tokens, tt.name, tt.scope)
		for _, needs := range tt.opens {
			if err := tokens.Check(Request{Authorization: text, Needs: needs}); err != nil {
				t.Errorf("%s for %v: %v", tt.name, needs, err)
			}
		}
		for _, needs := range tt.shuts {
			var r *Refusal
			if err := tokens.Check(Request{Authorization: text, Needs: needs}); !errors.As(err, &r) || !r.Scope ||
				!strings.Contains(err.Error(), needs.String()) {
				t.Errorf("%s for %v: %v, want a refusal that names the scope", tt.name, needs, err)
			}
		}
	}
}

// TestRevokedAtOnce: the very next check refuses; the token stays away after a start, and others stay.
func TestRevocationTakesEffectAtOnce_B082(t *testing.T) {
	tokens := open(t, Options{})
	gone, a := create(t, tokens, "a", Infer)
	_, b := create(t, tokens, "b", Infer)
	if a == b || len(a) < 30 || !strings.HasPrefix(a, "nrd_") {
		t.Errorf("tokens %q and %q", a, b)
	}
	if _, err := tokens.Revoke(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	for name, tokens := range map[string]*Tokens{"the same process": tokens,
		"the next start": open(t, Options{Folder: tokens.folder})} {
		if tokens.Check(Request{Authorization: a, Needs: Infer}) == nil {
			t.Errorf("%s: a revoked token passes", name)
		}
		if err := tokens.Check(Request{Authorization: b, Needs: Infer}); err != nil {
			t.Errorf("%s: another token: %v", name, err)
		}
		if l := tokens.List(); len(l) != 1 || l[0].Name != "b" || l[0].Scope != Infer {
			t.Errorf("%s: List = %+v", name, l)
		}
	}
	if _, err := tokens.Revoke(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoking twice: %v", err)
	}
	if _, err := tokens.Revoke(t.Context(), "b"); err != nil || tokens.Required() {
		t.Errorf("revoked by name: %v, asked %v", err, tokens.Required())
	}
}

func TestRevocationHoldsIfTheDiskFails(t *testing.T) {
	tokens := open(t, Options{Always: true})
	_, text := create(t, tokens, "a", Infer)
	if err := os.RemoveAll(tokens.folder); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Revoke(t.Context(), "a"); err == nil {
		t.Error("a failed write is not reported")
	}
	if tokens.Check(Request{Authorization: text, Needs: Infer}) == nil {
		t.Error("the token passes because the disk is full")
	}
}

// The database has a copy of the file, so that a backup has the tokens. The file decides, whatever the database says.
func TestTheFileDecidesOverTheDatabase_H14(t *testing.T) {
	tokens := open(t, Options{})
	create(t, tokens, "kept", Infer)
	create(t, tokens, "revoked", Infer)
	before, err := tokens.store.Tokens(t.Context())
	if err != nil || len(before) != 2 {
		t.Fatalf("the database has %v, %v", before, err)
	}
	if _, err := tokens.Revoke(t.Context(), "revoked"); err != nil {
		t.Fatal(err)
	}
	if err := tokens.store.SetTokens(t.Context(), before); err != nil { // an older copy
		t.Fatal(err)
	}
	again := open(t, Options{Folder: tokens.folder, Store: tokens.store})
	after, err := tokens.store.Tokens(t.Context())
	if l := again.List(); err != nil || len(l) != 1 || len(after) != 1 || after[0].Name != "kept" {
		t.Errorf("tokens %v, copy %v, %v", l, after, err)
	}
	info, err := os.Stat(filepath.Join(tokens.folder, FileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of tokens: %v, %v", info, err)
	}
}

// A server that does not know its tokens refuses all but the environment's, and makes none.
func TestUnreadableTokensAreRefused_H14(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := open(t, Options{Folder: dir, Environment: "secret"})
	if err := tokens.Unread(); err == nil || !strings.Contains(err.Error(), FileName) || !tokens.Exist() {
		t.Errorf("Unread = %v", err)
	}
	if err := tokens.Check(Request{Needs: Any}); err == nil || !strings.Contains(err.Error(), "its log says") {
		t.Errorf("without a token: %v", err)
	}
	if err := tokens.Check(Request{Authorization: "secret", Needs: Admin}); err != nil {
		t.Errorf("the environment's token: %v", err)
	}
	if _, text, err := tokens.Create(t.Context(), "a", Infer); err == nil || text != "" {
		t.Errorf("Create = %q, %v", text, err)
	}
}

// No content of the file makes a server believe that it has no tokens, except a list without any.
func FuzzTokenFile(f *testing.F) {
	for _, seed := range []string{`{"tokens":[]}`, `{"tokens":[{"id":"a","hash":"AAAA"}]}`, `{"tokens":null}`, `{}`,
		`null`, ``, `[]`, `{"Tokens":[]} x`, `{"tokens":[{}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		tokens, err := decode(content)
		if err == nil && len(tokens) == 0 && !bytes.Contains(content, []byte("[")) {
			t.Errorf("%q is read as a list without tokens", content)
		}
	})
}

func TestNamesAndScopesAreChecked(t *testing.T) {
	tokens := open(t, Options{})
	create(t, tokens, "taken", Infer)
	for _, tt := range []struct {
		name  string
		scope Scope
	}{{"", Infer}, {" ", Infer}, {strings.Repeat("x", 65), Infer}, {"a\x1b[31m", Infer}, {"a\nb", Infer}, {"\xff",
		Infer}, {"taken", Infer}, {"ok", 0}, {"ok", 16}} {
		if _, text, err := tokens.Create(t.Context(), tt.name, tt.scope); err == nil || text != "" {
			t.Errorf("Create(%q, %d) = %q, %v", tt.name, tt.scope, text, err)
		}
	}
	for text, want := range map[string]Scope{"infer": Infer, "infer, control": Infer | Control, "admin": Admin} {
		if got, err := ParseScopes(text); err != nil || got != want {
			t.Errorf("ParseScopes(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "root", "infer,", "INFER"} {
		if _, err := ParseScopes(text); err == nil {
			t.Errorf("ParseScopes(%q) passes", text)
		}
	}
}

func TestLocalProgramsMayPassWithoutAToken(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 168, 1, 2)}
	tokens := open(t, Options{Always: true})
	if tokens.Check(Request{Remote: here}) == nil {
		t.Error("a local program passes without being let")
	}
	tokens.AllowLocal(true)
	if err := tokens.Check(Request{Remote: here, Needs: Infer}); err != nil {
		t.Errorf("a local program: %v", err)
	}
	if tokens.Check(Request{Remote: there, Needs: Infer}) == nil || tokens.Check(Request{Needs: Infer}) == nil {
		t.Error("others pass without a token")
	}
	env := open(t, Options{Environment: "secret"})
	env.AllowLocal(true)
	if env.Check(Request{Remote: here, Needs: Infer}) == nil {
		t.Error("the environment's token is not asked of a local program")
	}
}

// TestH11 the token is in no log line and in no row.
func TestH11_TokensAreNotKept(t *testing.T) {
	var log bytes.Buffer
	tokens := open(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, text := create(t, tokens, "a", Admin)
	stored, err := tokens.store.Tokens(t.Context())
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	h := sum(text)
	if !bytes.Equal(stored[0].Hash, h[:]) || strings.Contains(stored[0].ID+stored[0].Name+stored[0].Scopes, text) {
		t.Errorf("stored %+v", stored[0])
	}
	if _, err := tokens.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if s := log.String(); strings.Contains(s, text) || strings.Count(s, "access token") != 2 {
		t.Errorf("the log says %s", s)
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	tokens := open(t, Options{Environment: "secret"})
	_, text := create(t, tokens, "a", Infer)
	value := "Bearer " + text
	for name, r := range map[string]Request{"right": {Authorization: value, Needs: Infer},
		"wrong": {Authorization: text[1:], Needs: Infer}, "narrow": {Authorization: text, Needs: Control}} {
		if n := testing.AllocsPerRun(100, func() { _ = tokens.Check(r) }); n != 0 {
			t.Errorf("%s token: %v allocations", name, n)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s, err := store.OpenMemory(b.Context(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tokens := New(b.Context(), Options{Folder: b.TempDir(), Store: s})
	_, text, err := tokens.Create(b.Context(), "a", Infer)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := tokens.Check(Request{Authorization: text, Needs: Infer}); err != nil {
			b.Fatal(err)
		}
	}
}
