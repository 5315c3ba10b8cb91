package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Token is an access token as it is stored: what it opens and the hash by which it is known, never itself.
type Token struct {
	ID        string // public; made by the caller
	Name      string // what its maker calls it, unique
	Scopes    string // the caller's words
	Hash      []byte // SHA-256 of the token
	CreatedUS int64  // 0: now
}

// ErrExists answers AddToken for a name that is taken.
var ErrExists = errors.New("exists in the store")

// AddToken stores t. When the error is nil, it is on disk and survives a loss of power. ErrExists: its name is taken.
func (s *Store) AddToken(ctx context.Context, t Token) (Token, error) {
	if t.CreatedUS == 0 {
		t.CreatedUS = nowUS()
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO access_token (id, name, scopes, hash, created_us) VALUES (?, ?, ?, ?, ?)`,
			t.ID, t.Name, t.Scopes, t.Hash, t.CreatedUS)
		var e sqlite3.Error
		if errors.As(err, &e) && e.Code == sqlite3.ErrConstraint {
			return ErrExists
		}
		return err
	})
	if err != nil {
		return Token{}, fmt.Errorf("token %q is not stored: %w", t.Name, err)
	}
	return t, nil
}

// DeleteToken removes a token, or answers ErrNotFound. When the error is nil, it is gone from the disk for good.
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	err := s.change(ctx, `DELETE FROM access_token WHERE id = ?`, id)
	if err != nil {
		return fmt.Errorf("token %q is not removed: %w", id, err)
	}
	return nil
}

// Tokens answers all tokens, the oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT id, name, scopes, hash, created_us FROM access_token ORDER BY created_us, id`)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		var t Token
		if err := rows.Scan(&t.ID, &t.Name, &t.Scopes, &t.Hash, &t.CreatedUS); err != nil {
			return nil, fmt.Errorf("tokens: %w", err)
		}
		out = append(out, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return out, nil
}
