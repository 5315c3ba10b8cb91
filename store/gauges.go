package store

import (
	"cmp"
	"context"
	"database/sql"
	"math"
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

// stretch is a Gauge that stands for some minutes in a row, at most those of an hour.
type stretch struct {
	Gauge
	minutes int64
}

// stretches joins the minutes of each series that are within a hundredth of the first of them, so that an idle server
// writes one row an hour for each.
func stretches(gauges []Gauge) (out []stretch) {
	type key struct{ name, model string }
	last := map[key]int{} // where in out
	for _, g := range gauges {
		k := key{g.Name, g.Model}
		if i, found := last[k]; found {
			s := &out[i]
			if s.StartUS+s.minutes*minute == g.StartUS && s.minutes < hour/minute &&
				near(s.Mean, g.Mean) && near(s.Most, g.Most) {
				s.minutes++
				continue
			}
		}
		last[k] = len(out)
		out = append(out, stretch{g, 1})
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= math.Abs(a)/100 }

// waitingGauges are those that are not written yet. writing is held while they are written; it is taken before mu.
type waitingGauges struct {
	writing sync.Mutex
	mu      sync.Mutex
	since   time.Time // when the first of them came; guarded by mu, as are they
	gauges  []Gauge
}

// AddGauges stores gauges. Those of the same name, model and minute are replaced. They stay in memory until
// GaugeSteps reads them, the store is closed, or one of them is gaugeDelay old, so a crash loses up to that much.
// Minutes in a row that are within a hundredth of the first of them are stored as that.
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
		st, err := tx.PrepareContext(ctx, `INSERT INTO gauge (name, model, start_us, mean, most, minutes)
			VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET mean = excluded.mean, most = excluded.most, minutes = excluded.minutes`)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, g := range stretches(gauges) {
			if _, err := st.ExecContext(ctx, g.Name, g.Model, g.StartUS, g.Mean, g.Most, g.minutes); err != nil {
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

// gaugeMinutes defines minute_of: the gauges of a model with ?3 <= at < ?4, each minute of them. ?1 is a name; "": all.
const gaugeMinutes = `WITH RECURSIVE stretch(name, at, left, mean, most) AS (
		SELECT name, start_us, minutes, mean, most FROM gauge
		WHERE (?1 = '' OR name = ?1) AND model = ?2 AND start_us > ?3 - 3600000000 AND start_us < ?4
		UNION ALL SELECT name, at + 60000000, left - 1, mean, most FROM stretch WHERE left > 1),
	minute_of AS (SELECT * FROM stretch WHERE at >= ?3 AND at < ?4) `

// Gauges returns the gauges of a name and model with FromUS <= start < ToUS, in order of time, at most 50,000 and those
// that are not written yet. It writes nothing: alerts look at an idle server too.
func (s *Store) Gauges(ctx context.Context, name, model string, fromUS, toUS int64) (out []Gauge, err error) {
	w := &s.gauges
	w.writing.Lock() // what is being written is found in neither place
	defer w.writing.Unlock()
	found, err := all(ctx, s.r, func(g *Gauge) []any { return []any{&g.Name, &g.Model, &g.StartUS, &g.Mean, &g.Most} },
		gaugeMinutes+`SELECT name, ?2, at, mean, most FROM minute_of ORDER BY at LIMIT 50000`,
		name, model, fromUS, toUS)
	if err != nil {
		return nil, about(err, "readings of the machine")
	}
	w.mu.Lock()
	for _, g := range w.gauges {
		if g.Name == name && g.Model == model && fromUS <= g.StartUS && g.StartUS < toUS {
			found = append(found, g)
		}
	}
	w.mu.Unlock()
	slices.SortStableFunc(found, func(a, b Gauge) int { return cmp.Compare(a.StartUS, b.StartUS) })
	for i, g := range found {
		if i+1 == len(found) || found[i+1].StartUS > g.StartUS { // the last of a minute holds
			out = append(out, g)
		}
	}
	return out, nil
}

// GaugeSteps returns all gauges of a model with FromUS <= start < ToUS in steps: the mean of the means, and the most.
// They are in order of name and time. step is rounded up to whole minutes, and starts are multiples of it.
func (s *Store) GaugeSteps(ctx context.Context, model string, fromUS, toUS int64, step time.Duration) ([]Gauge,
	time.Duration, error) {
	_ = s.writeGauges(ctx) // Health has the error; what was written before can be read
	us := max(minute, (step.Microseconds()+minute-1)/minute*minute)
	out, err := all(ctx, s.r, func(g *Gauge) []any { return []any{&g.Name, &g.Model, &g.StartUS, &g.Mean, &g.Most} },
		gaugeMinutes+`SELECT name, ?2, at - at % ?5 AS step, avg(mean), max(most) FROM minute_of
		GROUP BY name, step ORDER BY name, step`,
		"", model, fromUS-fromUS%us, toUS, us)
	return out, time.Duration(us) * time.Microsecond, about(err, "readings of the machine")
}
