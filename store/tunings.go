package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// Tuning is a search for a model's best configuration. Head and Body are JSON in the caller's form: Head is what a list
// shows, Body is everything.
type Tuning struct {
	ID        int64
	Model     string
	StartedUS int64
	Head      json.RawMessage
	Body      json.RawMessage // nil in lists
}

// keptTunings is how many tunings of a model are kept. A new one replaces the oldest.
const keptTunings = 20

// AddTuning stores t and returns its ID. It removes the model's oldest tunings if there are too many.
func (s *Store) AddTuning(ctx context.Context, t Tuning) (id int64, err error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	err = s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx,
			`INSERT INTO tuning (model, started_us, head, body) VALUES (?, ?, ?, ?) RETURNING id`,
			t.Model, t.StartedUS, string(t.Head), string(t.Body)).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM tuning WHERE model = ?1 AND id NOT IN (
			SELECT id FROM tuning WHERE model = ?1 ORDER BY id DESC LIMIT ?2)`, t.Model, keptTunings)
		return err
	})
	return id, about(err, "tuning of model %q is not stored", t.Model)
}

func (t *Tuning) check() error {
	if t.Model == "" || !json.Valid(t.Head) || !json.Valid(t.Body) {
		return fmt.Errorf("a tuning of model %q without a model or with what is not JSON", t.Model)
	}
	return nil
}

// SetTuning replaces the head and the body of a tuning, or returns ErrNotFound.
func (s *Store) SetTuning(ctx context.Context, t Tuning) error {
	if err := t.check(); err != nil {
		return err
	}
	err := s.change(ctx, `UPDATE tuning SET head = ?, body = ? WHERE id = ?`, string(t.Head), string(t.Body), t.ID)
	return about(err, "tuning %d", t.ID)
}

// DeleteTuning removes a tuning, or returns ErrNotFound.
func (s *Store) DeleteTuning(ctx context.Context, id int64) error {
	return about(s.change(ctx, `DELETE FROM tuning WHERE id = ?`, id), "tuning %d", id)
}

// Tuning returns a tuning, or ErrNotFound.
func (s *Store) Tuning(ctx context.Context, id int64) (Tuning, error) {
	t, err := one(ctx, s.r, func(t *Tuning) []any {
		return []any{&t.ID, &t.Model, &t.StartedUS, (*[]byte)(&t.Head), (*[]byte)(&t.Body)}
	}, `SELECT id, model, started_us, head, body FROM tuning WHERE id = ?`, id)
	return t, about(err, "tuning %d", id)
}

// Tunings returns the tunings of a model without their bodies, the newest first.
func (s *Store) Tunings(ctx context.Context, model string) ([]Tuning, error) {
	out, err := all(ctx, s.r, func(t *Tuning) []any {
		return []any{&t.ID, &t.Model, &t.StartedUS, (*[]byte)(&t.Head)}
	}, `SELECT id, model, started_us, head FROM tuning WHERE model = ? ORDER BY id DESC`, model)
	return out, about(err, "tunings of model %q", model)
}
