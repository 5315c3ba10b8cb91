package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	// UsedUS is the second, in microseconds since 1970, in which the token last opened something; 0: not since the
	// start of this server.
	UsedUS int64
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
	// Folder is the data folder, which the caller has locked.
	Folder string
	// Store gets a copy of the tokens, for backups and for older versions.
	Store *store.Store
	// StoreError is why Store is not the database of Folder; nil: it is.
	StoreError error
	// Environment is a token from the environment, "" for none. It opens everything.
	Environment string
	// Always requires a token even if there is none yet. It is for a server that other machines can reach.
	Always bool
	Log    *slog.Logger // nil: none
}

// Tokens are the tokens of a server. They check its requests. Safe for concurrent use.
type Tokens struct {
	guard
	folder   string
	store    *store.Store
	unread   error  // why the tokens are not known; nil: they are
	env      bool   // the environment has a token
	internal string // opens inference for this process
	log      *slog.Logger

	mu         sync.Mutex // guards the following; Check reads guard.table without it
	known      []knownToken
	extra      map[hash]grant // the token of the environment and the internal one
	always     bool
	allowLocal bool
}

type knownToken struct {
	Token
	hash hash // zero: the token opens nothing
	used *atomic.Int64
}

// New returns the tokens of a data folder. If they cannot be read, New succeeds: then no token but that of the
// environment opens anything, requests need one, and Unread says why. A malformed token is kept, so that it can be
// revoked, but opens nothing.
func New(ctx context.Context, o Options) *Tokens {
	t := &Tokens{folder: o.Folder, store: o.Store, env: o.Environment != "", internal: "internal_" + rand.Text(),
		log: o.Log, always: o.Always}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.extra = map[hash]grant{sum(t.internal): newGrant(Infer)}
	if t.env {
		t.extra[sum(o.Environment)] = newGrant(Any)
	}
	var stored []store.Token
	stored, t.unread = t.read(ctx, o.StoreError)
	for _, s := range stored {
		k := knownToken{Token: Token{ID: s.ID, Name: s.Name, CreatedUS: s.CreatedUS}, used: new(atomic.Int64)}
		scope, err := ParseScopes(s.Scopes)
		if err != nil || len(s.Hash) != len(hash{}) {
			t.log.Warn("a stored token is malformed and opens nothing; revoke it", "id", s.ID, "name", s.Name)
		} else {
			k.Scope, k.hash = scope, hash(s.Hash)
		}
		t.known = append(t.known, k)
	}
	t.update()
	return t
}

// read returns the tokens of the file. Without a file it returns those of the database, and writes the file. Afterwards
// both have the same tokens, if they can be written.
func (t *Tokens) read(ctx context.Context, storeError error) ([]store.Token, error) {
	stored, err := readFile(t.folder)
	switch {
	case err == nil:
		t.copyToStore(ctx, stored)
		return stored, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; repair the file, or remove it: the next start then takes the tokens from the "+
			"database", err)
	case storeError == nil:
		stored, err = t.store.Tokens(ctx)
	case hasDatabase(t.folder):
		err = storeError
	default:
		err = nil // a new data folder
	}
	if err != nil {
		return nil, fmt.Errorf("%w; repair it, or restore a backup with nereid restore; if there are no tokens, move "+
			"the database away", err)
	}
	if err := writeFile(t.folder, stored); err != nil {
		t.log.Warn("the tokens are only in the database, and are not known if that is damaged", "err", err)
	}
	return stored, nil
}

// copyToStore makes the tokens of the database those of the file.
func (t *Tokens) copyToStore(ctx context.Context, tokens []store.Token) {
	has, err := t.store.Tokens(ctx)
	same := func(a, b store.Token) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Scopes == b.Scopes && bytes.Equal(a.Hash, b.Hash)
	}
	if err == nil && !slices.EqualFunc(has, tokens, same) {
		err = t.store.SetTokens(ctx, tokens)
	}
	if err != nil {
		t.log.Warn("the database has no copy of the access tokens, so a backup misses changes of them", "err", err)
	}
}

// Unread returns why the tokens cannot be read and how to repair them; nil: they are known.
func (t *Tokens) Unread() error { return t.unread }

// Internal returns a token for inference by this process itself. It changes with every start and is never shown.
func (t *Tokens) Internal() string { return t.internal }

// Environment reports whether the environment has a token.
func (t *Tokens) Environment() bool { return t.env }

// Exist reports whether there is a token, not counting the internal one. Tokens that cannot be read count as existing.
func (t *Tokens) Exist() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exist()
}

func (t *Tokens) exist() bool { return t.env || len(t.known) > 0 || t.unread != nil }

// HasAdmin reports whether a token of the data folder has the scope admin. Tokens that cannot be read count as such.
func (t *Tokens) HasAdmin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unread != nil || slices.ContainsFunc(t.known, func(k knownToken) bool { return k.Scope&Admin != 0 })
}

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
		out[i].UsedUS = k.used.Load() * 1_000_000
	}
	return out
}

// Create makes a token, which is valid at once. It returns the token's text, which is not kept. If the error is nil,
// the token is on disk. Errors: ErrName, an invalid scope, and those of the file.
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
	if t.unread != nil {
		return Token{}, "", fmt.Errorf("no token can be made while those that exist cannot be read: %w", t.unread)
	}
	if slices.ContainsFunc(t.known, func(k knownToken) bool { return k.Name == name }) {
		return Token{}, "", fmt.Errorf("%w: there is a token named %q already; revoke it or choose another name",
			ErrName, name)
	}
	asked := t.Required()
	text := prefix + rand.Text() + rand.Text()[:6]
	made := Token{ID: strings.ToLower(rand.Text()[:8]), Name: name, Scope: scope, CreatedUS: time.Now().UnixMicro()}
	if err := t.keep(ctx, append(slices.Clip(t.known), knownToken{made, sum(text), new(atomic.Int64)})); err != nil {
		return Token{}, "", err
	}
	t.log.Info("an access token was made", "id", made.ID, "name", name, "scopes", scope.String())
	if !asked {
		t.log.Warn("clients need a token from now on, since there is one")
	}
	return made, text, nil
}

// Revoke revokes the token with that ID or name. When it returns, no request passes with the token. After an error of
// the file this still holds, but the token is valid again at the next start. Errors: ErrNotFound, and those of the
// file.
func (t *Tokens) Revoke(ctx context.Context, idOrName string) (Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.known, func(k knownToken) bool { return k.ID == idOrName })
	if at < 0 {
		at = slices.IndexFunc(t.known, func(k knownToken) bool { return k.Name == idOrName })
	}
	if at < 0 {
		return Token{}, errors.Join(fmt.Errorf("%w: %q; nereid token list shows them", ErrNotFound, idOrName), t.unread)
	}
	revoked := t.known[at].Token
	t.known[at].hash = hash{}
	t.update()
	if err := t.keep(ctx, slices.Delete(slices.Clone(t.known), at, at+1)); err != nil {
		return revoked, fmt.Errorf("the token is refused from now on, but would come back at the next start; "+
			"revoke it again: %w", err)
	}
	t.log.Info("an access token was revoked", "id", revoked.ID, "name", revoked.Name)
	return revoked, nil
}

// keep replaces the tokens: in the file, then here, then in the database, which may fail. mu is held.
func (t *Tokens) keep(ctx context.Context, tokens []knownToken) error {
	stored := []store.Token{}
	for _, k := range tokens {
		stored = append(stored, store.Token{ID: k.ID, Name: k.Name, Scopes: k.Scope.String(), Hash: k.hash[:],
			CreatedUS: k.CreatedUS})
	}
	if err := writeFile(t.folder, stored); err != nil {
		return err
	}
	t.known = tokens
	t.update()
	t.copyToStore(ctx, stored)
	return nil
}

// update replaces guard.table by the present tokens and settings. mu is held, except in New.
func (t *Tokens) update() {
	next := &table{grants: maps.Clone(t.extra), required: t.always || t.exist(), allowLocal: t.allowLocal && !t.env,
		unknown: missing}
	if t.unread != nil {
		next.unknown = unreadable
	}
	for _, k := range t.known {
		if k.hash != (hash{}) {
			next.grants[k.hash] = grant{k.Scope, k.used}
		}
	}
	t.table.Store(next)
}
