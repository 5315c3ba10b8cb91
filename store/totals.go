package store

import (
	"context"
	"time"
)

// Totals is what all versions together did, and which of them did most.
type Totals struct {
	Step   time.Duration // as in Samples
	FromUS int64
	// Points have Requests, Successes, QueueNS and the failures, all as Failures.Other, of each step that was not idle.
	Points []Sample
	// Series are the versions with requests, the busiest first.
	Series []SeriesTotal
}

// SeriesTotal is how many requests a version had.
type SeriesTotal struct {
	Model    string
	Version  int64
	Requests int64
}

// Totals adds up all versions that fit a query, whose Model may be "". SQLite does the sums, so that a day of many
// models is one short list.
func (s *Store) Totals(ctx context.Context, q SampleQuery) (Totals, error) {
	step := s.chooseStep(q)
	out := Totals{Step: time.Duration(step) * time.Microsecond, FromUS: q.FromUS - q.FromUS%step}
	table := levels[levelFor(step)].table
	const which = ` WHERE series_id IN (SELECT id FROM series WHERE ?1 IN ('', model) AND ?2 IN (0, version))
		AND start_us >= ?3 AND start_us < ?4 `
	args := []any{q.Model, q.Version, out.FromUS, q.ToUS}
	var err error
	point := func(p *Sample) []any { return []any{&p.StartUS, &p.Requests, &p.Successes, &p.QueueNS} }
	out.Points, err = all(ctx, s.r, point, `SELECT start_us - start_us % ?5 AS at, sum(requests), sum(successes),
		sum(queue_ns) FROM `+table+which+`GROUP BY at ORDER BY at`, append(args, step)...)
	if err != nil {
		return out, about(err, "history of all models")
	}
	for i := range out.Points {
		p := &out.Points[i]
		p.Failures.Other = p.Requests - p.Successes
	}
	series := func(t *SeriesTotal) []any { return []any{&t.Model, &t.Version, &t.Requests} }
	out.Series, err = all(ctx, s.r, series, `SELECT model, version, n FROM
		(SELECT series_id, sum(requests) AS n FROM `+table+which+`GROUP BY series_id) JOIN series ON series_id = id
		WHERE n > 0 ORDER BY n DESC, model, version`, args...)
	return out, about(err, "history of all models")
}
