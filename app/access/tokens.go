package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"nereid/store"
)

// Token describes a token, without its text.
type Token struct {
	ID        string
	Name      string
	Scope     Scope
	CreatedUS int64 // microseconds since 1970
}

// prefix distinguishes our tokens from other secrets, for people and for scanners of leaked secrets.
const prefix = "nrd_"

var (
	// ErrName is returned by Create for a name that is empty, too long, not printable or taken.
	ErrName = errors.New("bad name")
	// ErrNotFound is returned by Revoke for a token that does not exist.
	ErrNotFound = errors.New("no such token")
)

// Options of New.
type Options struct {
	Store *store.Store
	// Environment is a token from the environment, "" for none. It opens everything.
	Environment string
	// Always requires a token even if there is none yet. It is for a server that other machines can reach.
	Always bool
	Log    *slog.Logger // nil: none
}

// Tokens are the tokens of a server. They check its requests. Safe for concurrent use.
type Tokens struct {
	guard
	store    *store.Store
	env      bool   // the environment has a token
	internal string // opens inference for this process
	log      *slog.Logger

	mu         sync.Mutex // guards the following; Check reads guard.table without it
	known      []knownToken
	extra      map[hash]Scope // the token of the environment and the internal one
	always     bool
	allowLocal bool
}

type knownToken struct {
	Token
	hash hash // zero: the token opens nothing
}

// New returns the stored tokens. A malformed one is kept, so that it can be revoked, but opens nothing.
func New(ctx context.Context, o Options) (*Tokens, error) {
	t := &Tokens{store: o.Store, env: o.Environment != "", internal: "internal_" + rand.Text(), log: o.Log,
		always: o.Always}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.extra = map[hash]Scope{sum(t.internal): Infer}
	if t.env {
		t.extra[sum(o.Environment)] = Any
	}
	stored, err := o.Store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		k := knownToken{Token: Token{ID: s.ID, Name: s.Name, CreatedUS: s.CreatedUS}}
		scope, err := ParseScopes(s.Scopes)
		if err != nil || len(s.Hash) != len(hash{}) {
			t.log.Warn("a stored token is malformed and opens nothing; revoke it", "id", s.ID, "name", s.Name)
		} else {
			k.Scope, k.hash = scope, hash(s.Hash)
		}
		t.known = append(t.known, k)
	}
	t.update()
	return t, nil
}

// Internal returns a token for inference by this process itself. It changes with every start and is never shown.
func (t *Tokens) Internal() string { return t.internal }

// Environment reports whether the environment has a token.
func (t *Tokens) Environment() bool { return t.env }

// Exist reports whether there is a token, not counting the internal one.
func (t *Tokens) Exist() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exist()
}

func (t *Tokens) exist() bool { return t.env || len(t.known) > 0 }

// RequireAlways sets whether requests need a token even if there is none; see Options.Always.
func (t *Tokens) RequireAlways(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.always = on
	t.update()
}

// AllowLocal sets whether programs on this machine pass without a token. If the environment has a token, they still
// need one.
func (t *Tokens) AllowLocal(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowLocal = on
	t.update()
}

// List returns the tokens, the oldest first.
func (t *Tokens) List() []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Token, len(t.known))
	for i, k := range t.known {
		out[i] = k.Token
	}
	return out
}

// Create makes a token, which is valid at once. It returns the token's text, which is not kept. Errors: ErrName, an
// invalid scope, and those of the store.
func (t *Tokens) Create(ctx context.Context, name string, scope Scope) (Token, string, error) {
	name = strings.TrimSpace(name)
	notPrintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case name == "", utf8.RuneCountInString(name) > 64, !utf8.ValidString(name),
		strings.ContainsFunc(name, notPrintable):
		return Token{}, "", fmt.Errorf("%w: a token needs a name of 1 to 64 printable characters", ErrName)
	case scope&Any == 0 || scope&^Any != 0:
		return Token{}, "", errors.New("a token needs a scope: infer, control or admin")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := prefix + rand.Text() + rand.Text()[:6]
	id := strings.ToLower(rand.Text()[:8])
	h := sum(text)
	stored, err := t.store.AddToken(ctx, store.Token{ID: id, Name: name, Scopes: scope.String(), Hash: h[:]})
	if errors.Is(err, store.ErrExists) {
		return Token{}, "", fmt.Errorf("%w: there is a token named %q already; revoke it or choose another name",
			ErrName, name)
	}
	if err != nil {
		return Token{}, "", err
	}
	made := Token{id, name, scope, stored.CreatedUS}
	t.known = append(t.known, knownToken{made, h})
	t.update()
	t.log.Info("an access token was made", "id", id, "name", name, "scopes", scope.String())
	return made, text, nil
}

// Revoke revokes the token with that ID or name. When it returns, no request passes with the token. After an error of
// the store this still holds, but the token is valid again at the next start. Errors: ErrNotFound, and those of the
// store.
func (t *Tokens) Revoke(ctx context.Context, idOrName string) (Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.known, func(k knownToken) bool { return k.ID == idOrName })
	if at < 0 {
		at = slices.IndexFunc(t.known, func(k knownToken) bool { return k.Name == idOrName })
	}
	if at < 0 {
		return Token{}, fmt.Errorf("%w: %q; nereid token list shows them", ErrNotFound, idOrName)
	}
	t.known[at].hash = hash{}
	t.update()
	revoked := t.known[at].Token
	if err := t.store.DeleteToken(ctx, revoked.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return revoked, fmt.Errorf("the token is refused from now on, but would come back at the next start; "+
			"revoke it again: %w", err)
	}
	t.known = slices.Delete(t.known, at, at+1)
	t.update()
	t.log.Info("an access token was revoked", "id", revoked.ID, "name", revoked.Name)
	return revoked, nil
}

// update replaces guard.table by the present tokens and settings. mu is held, except in New.
func (t *Tokens) update() {
	next := &table{scopes: maps.Clone(t.extra), required: t.always || t.exist(), allowLocal: t.allowLocal && !t.env}
	for _, k := range t.known {
		if k.hash != (hash{}) {
			next.scopes[k.hash] = k.Scope
		}
	}
	t.table.Store(next)
}
