package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"nereid/store"
)

// Token says what a token is, without the token.
type Token struct {
	ID        string
	Name      string
	Scope     Scope
	CreatedUS int64 // since the epoch
}

// prefix tells our tokens from other secrets, for people and for scanners of leaked ones.
const prefix = "nrd_"

var (
	// ErrName answers Create for a name that is empty, too long, not printable or taken.
	ErrName = errors.New("bad name")
	// ErrNotFound answers Revoke for a token that does not exist.
	ErrNotFound = errors.New("no such token")
)

// Options of New.
type Options struct {
	Store *store.Store
	// Environment is the token that the environment gives, "" for none. It opens everything.
	Environment string
	// Always asks for a token even if there is none yet, because others can reach the server.
	Always bool
	Log    *slog.Logger // nil: none
}

// Tokens are the tokens of a server and its guard. Safe for concurrent use.
type Tokens struct {
	guard
	store *store.Store
	env   bool
	log   *slog.Logger

	mu     sync.Mutex // held by writers; guards the rest
	known  []Token
	hashes map[string]hash // by ID
	extra  map[hash]Scope  // the environment's and the internal one
	always bool
	local  bool
}

// New reads the tokens that are stored.
func New(ctx context.Context, o Options) (*Tokens, error) {
	t := &Tokens{store: o.Store, env: o.Environment != "", log: o.Log, always: o.Always,
		hashes: map[string]hash{}, extra: map[hash]Scope{}}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.internal = newInternal()
	t.extra[sum(t.internal)] = Infer
	if t.env {
		t.extra[sum(o.Environment)] = Any
	}
	stored, err := o.Store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		scope, err := ParseScopes(s.Scopes)
		if err != nil || len(s.Hash) != len(hash{}) {
			t.log.Warn("a stored token is malformed and opens nothing; revoke it", "id", s.ID, "name", s.Name)
			scope = 0
		} else {
			t.hashes[s.ID] = hash(s.Hash)
		}
		t.known = append(t.known, Token{s.ID, s.Name, scope, s.CreatedUS})
	}
	t.swap()
	return t, nil
}

// Internal is a token for inference by this process itself. It changes with every start and is never shown.
func (t *Tokens) Internal() string { return t.internal }

// Environment reports whether the environment gives a token.
func (t *Tokens) Environment() bool { return t.env }

// Exist reports whether there is a token that a client can have.
func (t *Tokens) Exist() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exist()
}

func (t *Tokens) exist() bool { return t.env || len(t.known) > 0 }

// Always says that a token is asked for even if there is none; what the options said stays.
func (t *Tokens) Always(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.always = on
	t.swap()
}

// Local lets programs on this machine pass without a token. A token of the environment is asked of them all the same.
func (t *Tokens) Local(free bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.local = free
	t.swap()
}

// List returns the tokens, the oldest first.
func (t *Tokens) List() []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Token(nil), t.known...)
}

// Create makes a token and returns it with its text, which nobody can have again. It opens at once.
func (t *Tokens) Create(ctx context.Context, name string, scope Scope) (Token, string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "", utf8.RuneCountInString(name) > 64, !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return Token{}, "", fmt.Errorf("%w: a token needs a name of 1 to 64 printable characters", ErrName)
	case scope&Any == 0 || scope&^Any != 0:
		return Token{}, "", fmt.Errorf("a token needs a scope: infer, control or admin")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := prefix + rand.Text() + rand.Text()[:6]
	id := strings.ToLower(rand.Text()[:8])
	h := sum(text)
	stored, err := t.store.AddToken(ctx, store.Token{ID: id, Name: name, Scopes: scope.String(), Hash: h[:]})
	if errors.Is(err, store.ErrExists) {
		return Token{}, "", fmt.Errorf("%w: there is a token named %q already; revoke it or choose another name", ErrName, name)
	}
	if err != nil {
		return Token{}, "", err
	}
	made := Token{id, name, scope, stored.CreatedUS}
	t.known = append(t.known, made)
	t.hashes[id] = h
	t.swap()
	t.log.Info("an access token was made", "id", id, "name", name, "scopes", scope.String())
	return made, text, nil
}

// Revoke takes the token with that ID or name away. When it returns, no request passes with it, even if the error says
// that the store could not be written and the token would come back at the next start.
func (t *Tokens) Revoke(ctx context.Context, idOrName string) (Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := -1
	for i, k := range t.known {
		if k.ID == idOrName || at < 0 && k.Name == idOrName {
			at = i
		}
	}
	if at < 0 {
		return Token{}, fmt.Errorf("%w: %q; nereid token list shows them", ErrNotFound, idOrName)
	}
	gone := t.known[at]
	delete(t.hashes, gone.ID)
	t.swap()
	if err := t.store.DeleteToken(ctx, gone.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return gone, fmt.Errorf("the token is refused from now on, but would come back at the next start; revoke it again: %w", err)
	}
	t.known = append(t.known[:at:at], t.known[at+1:]...)
	t.swap()
	t.log.Info("an access token was revoked", "id", gone.ID, "name", gone.Name)
	return gone, nil
}

// swap makes the table of what is known. mu is held, except in New.
func (t *Tokens) swap() {
	next := &table{scopes: maps.Clone(t.extra), asked: t.always || t.exist(), local: t.local && !t.env}
	for _, k := range t.known {
		if h, ok := t.hashes[k.ID]; ok {
			next.scopes[h] = k.Scope
		}
	}
	t.table.Store(next)
}
