package store

import (
	"context"
	"database/sql"
	"errors"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Token is an access token as it is stored: what it opens and its hash, never its text.
type Token struct {
	ID        string // public; made by the caller
	Name      string // unique
	Scopes    string // in the caller's form
	Hash      []byte // SHA-256 of the token
	CreatedUS int64  // 0: now
}

// ErrExists is returned by AddToken for a name that is taken.
var ErrExists = errors.New("exists in the store")

// AddToken stores t. If the error is nil, it is on disk and survives a loss of power. ErrExists: its name is taken.
func (s *Store) AddToken(ctx context.Context, t Token) (Token, error) {
	if t.CreatedUS == 0 {
		t.CreatedUS = nowUS()
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO access_token (id, name, scopes, hash, created_us) VALUES (?, ?, ?, ?, ?)`,
			t.ID, t.Name, t.Scopes, t.Hash, t.CreatedUS)
		var e sqlite3.Error
		if errors.As(err, &e) && e.Code == sqlite3.ErrConstraint {
			return ErrExists
		}
		return err
	})
	return t, about(err, "token %q is not stored", t.Name)
}

// DeleteToken removes a token, or returns ErrNotFound. If the error is nil, the removal is on disk.
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	return about(s.change(ctx, `DELETE FROM access_token WHERE id = ?`, id), "token %q is not removed", id)
}

// Tokens returns all tokens, the oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	out, err := all(ctx, s.r, func(t *Token) []any {
		return []any{&t.ID, &t.Name, &t.Scopes, &t.Hash, &t.CreatedUS}
	}, `SELECT id, name, scopes, hash, created_us FROM access_token ORDER BY created_us, id`)
	return out, about(err, "tokens")
}
