package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
)

// Event is a single occurrence, such as a load, a reload or an import. The caller defines the kinds.
type Event struct {
	ID      int64 // given by the store, rising
	TimeUS  int64 // 0: now
	Kind    string
	Model   string // "" if it concerns no model
	Version int64  // 0 if it concerns no version
	Reason  string // for people; in Triton's words if there are such
	Detail  json.RawMessage
}

// RecordEvent queues an event to be stored and returns at once, with its ID and time. It returns false if the event was
// dropped, because the queue is full or the store is closed.
func (s *Store) RecordEvent(e Event) (Event, bool) {
	if e.TimeUS == 0 {
		e.TimeUS = nowUS()
	}
	e.ID = s.eventID.Add(1)
	ok := offer(s, s.events, e)
	if !ok {
		s.health.change(func(h *Health) { h.DroppedEvents++ })
	}
	return e, ok
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

// Events returns the events of a query, the latest first.
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
	out, err := all(ctx, s.r, func(e *Event) []any {
		return []any{&e.ID, &e.TimeUS, &e.Kind, &e.Model, &e.Version, &e.Reason, (*[]byte)(&e.Detail)}
	}, `SELECT id, time_us, kind, model, version, reason, detail FROM event
		WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, args...)
	return out, about(err, "events")
}

func limit(n, def, most int) int {
	if n <= 0 {
		return def
	}
	return min(n, most)
}
