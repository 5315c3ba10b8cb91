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
	if err != nil {
		return fmt.Errorf("setting %q is not stored: %w", key, err)
	}
	return nil
}

// Setting returns the value of key, or ErrNotFound.
func (s *Store) Setting(ctx context.Context, key string) (json.RawMessage, error) {
	value, err := queryOne(ctx, s.r, func(scan scanFunc) (value string, err error) {
		err = scan(&value)
		return value, err
	}, `SELECT value FROM setting WHERE key = ?`, key)
	if err != nil {
		return nil, fmt.Errorf("setting %q: %w", key, err)
	}
	return json.RawMessage(value), nil
}

// Settings returns all settings.
func (s *Store) Settings(ctx context.Context) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage)
	err := queryEach(ctx, s.r, func(scan scanFunc) error {
		var key, value string
		err := scan(&key, &value)
		out[key] = json.RawMessage(value)
		return err
	}, `SELECT key, value FROM setting`)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return out, nil
}
