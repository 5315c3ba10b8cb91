package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Tuning is a search for a model's best configuration. Head and Body are JSON that only its writer understands: what a list
// shows, and all of it.
type Tuning struct {
	ID        int64
	Model     string
	StartedUS int64
	Head      json.RawMessage
	Body      json.RawMessage // nil in lists
}

// KeptTunings is how many tunings of a model are kept: a new one takes the place of the oldest.
const KeptTunings = 20

// AddTuning stores t and answers its ID. Of the model's tunings the newest KeptTunings stay.
func (s *Store) AddTuning(ctx context.Context, t Tuning) (id int64, err error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	err = s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO tuning (model, started_us, head, body) VALUES (?, ?, ?, ?) RETURNING id`,
			t.Model, t.StartedUS, string(t.Head), string(t.Body)).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM tuning WHERE model = ?1 AND id NOT IN (
			SELECT id FROM tuning WHERE model = ?1 ORDER BY id DESC LIMIT ?2)`, t.Model, KeptTunings)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("tuning of model %q is not stored: %w", t.Model, err)
	}
	return id, nil
}

func (t *Tuning) check() error {
	if t.Model == "" || !json.Valid(t.Head) || !json.Valid(t.Body) {
		return fmt.Errorf("a tuning of model %q without a model or with what is not JSON", t.Model)
	}
	return nil
}

// SetTuning replaces the head and the body of a tuning; one that is gone is ErrNotFound.
func (s *Store) SetTuning(ctx context.Context, t Tuning) error {
	if err := t.check(); err != nil {
		return err
	}
	return s.oneTuning(ctx, t.ID, `UPDATE tuning SET head = ?2, body = ?3 WHERE id = ?1`, string(t.Head), string(t.Body))
}

// DeleteTuning removes a tuning; one that is gone is ErrNotFound.
func (s *Store) DeleteTuning(ctx context.Context, id int64) error {
	return s.oneTuning(ctx, id, `DELETE FROM tuning WHERE id = ?1`)
}

func (s *Store) oneTuning(ctx context.Context, id int64, query string, args ...any) error {
	err := s.change(ctx, query, append([]any{id}, args...)...)
	if err != nil {
		return fmt.Errorf("tuning %d: %w", id, err)
	}
	return nil
}

// Tuning answers one, or ErrNotFound.
func (s *Store) Tuning(ctx context.Context, id int64) (Tuning, error) {
	t := Tuning{ID: id}
	var head, body string
	err := s.r.QueryRowContext(ctx, `SELECT model, started_us, head, body FROM tuning WHERE id = ?`, id).Scan(&t.Model, &t.StartedUS, &head, &body)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Tuning{}, fmt.Errorf("tuning %d: %w", id, err)
	}
	t.Head, t.Body = json.RawMessage(head), json.RawMessage(body)
	return t, nil
}

// Tunings answers those of a model without their bodies, newest first.
func (s *Store) Tunings(ctx context.Context, model string) (out []Tuning, err error) {
	rows, err := s.r.QueryContext(ctx, `SELECT id, started_us, head FROM tuning WHERE model = ? ORDER BY id DESC`, model)
	if err != nil {
		return nil, fmt.Errorf("tunings of model %q: %w", model, err)
	}
	defer rows.Close()
	for rows.Next() {
		t := Tuning{Model: model}
		var head string
		if err := rows.Scan(&t.ID, &t.StartedUS, &head); err != nil {
			return nil, fmt.Errorf("tunings of model %q: %w", model, err)
		}
		t.Head = json.RawMessage(head)
		out = append(out, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("tunings of model %q: %w", model, err)
	}
	return out, nil
}
