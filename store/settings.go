package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// SetSetting stores value, which must be JSON, under key. When the error is nil, it is on disk and survives a loss
// of power.
func (s *Store) SetSetting(ctx context.Context, key string, value json.RawMessage) error {
	if !json.Valid(value) {
		return fmt.Errorf("setting %q: the value is not JSON", key)
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO setting (key, value, changed_us) VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET value = excluded.value, changed_us = excluded.changed_us`, key, string(value), nowUS())
		return err
	})
	if err != nil {
		return fmt.Errorf("setting %q is not stored: %w", key, err)
	}
	return nil
}

// DeleteSetting removes a setting; one that does not exist is no error.
func (s *Store) DeleteSetting(ctx context.Context, key string) error {
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM setting WHERE key = ?`, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("setting %q is not removed: %w", key, err)
	}
	return nil
}

// Setting answers the value of key, or ErrNotFound.
func (s *Store) Setting(ctx context.Context, key string) (json.RawMessage, error) {
	var value string
	err := s.r.QueryRowContext(ctx, `SELECT value FROM setting WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("setting %q: %w", key, err)
	}
	return json.RawMessage(value), nil
}

// Settings answers all settings.
func (s *Store) Settings(ctx context.Context) (map[string]json.RawMessage, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT key, value FROM setting`)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	defer rows.Close()
	out := make(map[string]json.RawMessage)
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		out[key] = json.RawMessage(value)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return out, nil
}
