package store

import (
	"context"
	"database/sql"
)

// Span is a period in which a version was loaded. Without spans, an idle second, which has no sample, would look like a
// second in which the version was not loaded.
type Span struct {
	Model        string
	Version      int64
	FromUS, ToUS int64
}

// RecordSpans queues spans to be stored and returns at once. A span with the version and FromUS of an earlier one
// extends it and never shortens it: the caller repeats a span while the version stays loaded. RecordSpans returns false
// if the spans were dropped; the next repetition stores them.
func (s *Store) RecordSpans(spans []Span) bool {
	return len(spans) == 0 || offer(s, s.spans, spans)
}

func (w *writer) writeSpans(ctx context.Context, tx *sql.Tx) error {
	if len(w.spans) == 0 {
		return nil
	}
	st, err := tx.PrepareContext(ctx, `INSERT INTO span (series_id, from_us, to_us) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET to_us = max(to_us, excluded.to_us)`)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, p := range w.spans {
		id, err := w.seriesID(ctx, tx, seriesKey{p.Model, p.Version})
		if err != nil {
			return err
		}
		if _, err := st.ExecContext(ctx, id, p.FromUS, p.ToUS); err != nil {
			return err
		}
	}
	return nil
}

// Spans returns the spans of a model (of all for "") and version (all for 0) that overlap FromUS <= t < ToUS, ordered
// by model, version and start.
func (s *Store) Spans(ctx context.Context, model string, version, fromUS, toUS int64) ([]Span, error) {
	out, err := all(ctx, s.r, func(p *Span) []any { return []any{&p.Model, &p.Version, &p.FromUS, &p.ToUS} },
		`SELECT model, version, from_us, to_us FROM span JOIN series ON id = series_id
		WHERE (? = '' OR model = ?) AND (? = 0 OR version = ?) AND to_us >= ? AND from_us < ?
		ORDER BY model, version, from_us`, model, model, version, version, fromUS, toUS)
	return out, about(err, "history of what was loaded")
}
