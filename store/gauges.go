package store

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"
)

// gaugeDelay is how long gauges stay in memory at most, so that an idle server seldom writes to the disk.
const gaugeDelay = time.Hour

// Gauge is what a reading, such as the memory of a model, was in the minute that begins at StartUS.
type Gauge struct {
	Name       string // the caller defines the names
	Model      string // "" for the machine
	StartUS    int64
	Mean, Most float64
}

// waitingGauges are those that are not written yet. writing is held while they are written; it is taken before mu.
type waitingGauges struct {
	writing sync.Mutex
	mu      sync.Mutex
	since   time.Time // when the first of them came; guarded by mu, as are they
	gauges  []Gauge
}

// AddGauges stores gauges. Those of the same name, model and minute are replaced. They stay in memory until they are
// read, the store is closed, or one of them is gaugeDelay old, so a crash loses up to that much.
func (s *Store) AddGauges(ctx context.Context, gauges []Gauge) error {
	if len(gauges) == 0 {
		return nil
	}
	if s.closed() {
		return ErrClosed
	}
	w := &s.gauges
	w.mu.Lock()
	if len(w.gauges) == 0 {
		w.since = time.Now()
	}
	w.gauges = append(w.gauges, gauges...)
	due := time.Since(w.since) >= gaugeDelay
	w.mu.Unlock()
	if !due {
		return nil
	}
	return s.writeGauges(ctx)
}

// writeGauges writes the gauges that wait. After an error they wait on, up to MaxPending of them.
func (s *Store) writeGauges(ctx context.Context) error {
	w := &s.gauges
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	gauges := w.gauges
	w.gauges = nil
	w.mu.Unlock()
	if len(gauges) == 0 {
		return nil
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		st, err := tx.PrepareContext(ctx, `INSERT INTO gauge (name, model, start_us, mean, most)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET mean = excluded.mean, most = excluded.most`)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, g := range gauges {
			if _, err := st.ExecContext(ctx, g.Name, g.Model, g.StartUS, g.Mean, g.Most); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.mu.Lock()
		w.gauges = slices.Concat(gauges, w.gauges)
		w.gauges = w.gauges[max(len(w.gauges)-s.opt.MaxPending, 0):]
		w.since = time.Now()
		w.mu.Unlock()
	}
	return about(err, "readings of the machine are not stored")
}

// Gauges returns the gauges of a name and model with FromUS <= start < ToUS, in order of time, at most 50,000.
func (s *Store) Gauges(ctx context.Context, name, model string, fromUS, toUS int64) ([]Gauge, error) {
	_ = s.writeGauges(ctx) // Health has the error; what was written before can be read
	out, err := all(ctx, s.r, func(g *Gauge) []any { return []any{&g.Name, &g.Model, &g.StartUS, &g.Mean, &g.Most} },
		`SELECT name, model, start_us, mean, most FROM gauge
		WHERE name = ? AND model = ? AND start_us >= ? AND start_us < ? ORDER BY start_us LIMIT 50000`,
		name, model, fromUS, toUS)
	return out, about(err, "readings of the machine")
}

// GaugeSteps returns all gauges of a model with FromUS <= start < ToUS in steps: the mean of the means, and the most.
// They are in order of name and time. step is rounded up to whole minutes, and starts are multiples of it.
func (s *Store) GaugeSteps(ctx context.Context, model string, fromUS, toUS int64, step time.Duration) ([]Gauge,
	time.Duration, error) {
	_ = s.writeGauges(ctx)
	us := max(minute, (step.Microseconds()+minute-1)/minute*minute)
	out, err := all(ctx, s.r, func(g *Gauge) []any { return []any{&g.Name, &g.Model, &g.StartUS, &g.Mean, &g.Most} },
		`SELECT name, model, start_us - start_us % ?1 AS at, avg(mean), max(most) FROM gauge
		WHERE model = ?2 AND start_us >= ?3 AND start_us < ?4 GROUP BY name, at ORDER BY name, at`,
		us, model, fromUS-fromUS%us, toUS)
	return out, time.Duration(us) * time.Microsecond, about(err, "readings of the machine")
}
