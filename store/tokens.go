package store

import (
	"context"
	"database/sql"
)

// Token is an access token as it is stored: what it opens and its hash, never its text.
type Token struct {
	ID        string `json:"id"`     // public; made by the caller
	Name      string `json:"name"`   // unique
	Scopes    string `json:"scopes"` // in the caller's form
	Hash      []byte `json:"hash"`   // SHA-256 of the token
	CreatedUS int64  `json:"createdUs"`
}

// SetTokens replaces all tokens. If the error is nil, they are on disk and survive a loss of power.
func (s *Store) SetTokens(ctx context.Context, tokens []Token) error {
	return about(s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM access_token`)
		for _, t := range tokens {
			if err == nil {
				_, err = tx.ExecContext(ctx,
					`INSERT INTO access_token (id, name, scopes, hash, created_us) VALUES (?, ?, ?, ?, ?)`,
					t.ID, t.Name, t.Scopes, t.Hash, t.CreatedUS)
			}
		}
		return err
	}), "tokens are not stored")
}

// Tokens returns all tokens, the oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	out, err := all(ctx, s.r, func(t *Token) []any {
		return []any{&t.ID, &t.Name, &t.Scopes, &t.Hash, &t.CreatedUS}
	}, `SELECT id, name, scopes, hash, created_us FROM access_token ORDER BY created_us, id`)
	return out, about(err, "tokens")
}
