package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// SetSetting stores value, which must be JSON, under key. If the error is nil, it is on disk and survives a loss of
// power.
func (s *Store) SetSetting(ctx context.Context, key string, value json.RawMessage) error {
	if !json.Valid(value) {
		return fmt.Errorf("setting %q: the value is not JSON", key)
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO setting (key, value, changed_us) VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET value = excluded.value, changed_us = excluded.changed_us`,
			key, string(value), nowUS())
		return err
	})
	return about(err, "setting %q is not stored", key)
}

// Setting returns the value of key, or ErrNotFound.
func (s *Store) Setting(ctx context.Context, key string) (json.RawMessage, error) {
	value, err := one(ctx, s.r, func(value *[]byte) []any { return []any{value} },
		`SELECT value FROM setting WHERE key = ?`, key)
	return value, about(err, "setting %q", key)
}

// Settings returns all settings.
func (s *Store) Settings(ctx context.Context) (map[string]json.RawMessage, error) {
	type setting struct {
		key   string
		value []byte
	}
	out := make(map[string]json.RawMessage)
	for row, err := range each(ctx, s.r, func(r *setting) []any { return []any{&r.key, &r.value} },
		`SELECT key, value FROM setting`) {
		if err != nil {
			return nil, about(err, "settings")
		}
		out[row.key] = row.value
	}
	return out, nil
}
