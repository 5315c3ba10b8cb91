package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// Event is something that happened once: a load, a reload, an import. The kinds are the caller's.
type Event struct {
	ID      int64 // given by the store, rising
	TimeUS  int64 // 0: now
	Kind    string
	Model   string // "" when it is about no model
	Version int64  // 0 when it is about no version
	Reason  string // why, for people; Triton's words where there are such
	Detail  json.RawMessage
}

// RecordEvent queues an event to be stored and returns at once, with its ID and time. It answers false when it was
// dropped: the queue is full or the store closed.
func (s *Store) RecordEvent(e Event) (Event, bool) {
	if e.TimeUS == 0 {
		e.TimeUS = nowUS()
	}
	e.ID = s.eventID.Add(1)
	if !s.closed() {
		select {
		case s.events <- e:
			return e, true
		default:
		}
	}
	s.dropped(0, 1)
	return e, false
}

func writeEvents(ctx context.Context, tx *sql.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	st, err := tx.PrepareContext(ctx,
		`INSERT INTO event (id, time_us, kind, model, version, reason, detail) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, e := range events {
		var detail any
		if len(e.Detail) > 0 {
			detail = string(e.Detail)
		}
		if _, err := st.ExecContext(ctx, e.ID, e.TimeUS, e.Kind, e.Model, e.Version, e.Reason, detail); err != nil {
			return err
		}
	}
	return nil
}

// EventQuery asks for events; zero fields do not limit.
type EventQuery struct {
	Model        string
	Kinds        []string
	FromUS, ToUS int64 // FromUS <= time < ToUS
	BeforeID     int64 // only earlier ones: the next page
	Limit        int   // default 200, at most 1001: a page of 1000 and a look at the next
}

// Events answers q, the latest first.
func (s *Store) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	where, args := []string{"1"}, []any{}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if q.Model != "" {
		add("model = ?", q.Model)
	}
	if q.FromUS != 0 {
		add("time_us >= ?", q.FromUS)
	}
	if q.ToUS != 0 {
		add("time_us < ?", q.ToUS)
	}
	if q.BeforeID != 0 {
		add("id < ?", q.BeforeID)
	}
	if len(q.Kinds) > 0 {
		where = append(where, "kind IN (?"+strings.Repeat(", ?", len(q.Kinds)-1)+")")
		for _, k := range q.Kinds {
			args = append(args, k)
		}
	}
	args = append(args, limit(q.Limit, 200, 1001))
	rows, err := s.r.QueryContext(ctx, `SELECT id, time_us, kind, model, version, reason, detail FROM event
		WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, args...)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		var e Event
		var detail sql.NullString
		if err := rows.Scan(&e.ID, &e.TimeUS, &e.Kind, &e.Model, &e.Version, &e.Reason, &detail); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		if detail.Valid {
			e.Detail = json.RawMessage(detail.String)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return out, nil
}

func limit(n, def, most int) int {
	if n <= 0 {
		return def
	}
	return min(n, most)
}
