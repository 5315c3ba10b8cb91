package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// SampleQuery asks for the samples of one model over a period.
type SampleQuery struct {
	Model string
	// Version limits it to one version; 0 adds up all versions.
	Version int64
	// FromUS <= start < ToUS.
	FromUS, ToUS int64
	// Step is the wanted width of a sample. It is rounded up to a multiple of what is kept; 0 chooses a width that
	// gives at most MaxPoints.
	Step time.Duration
	// MaxPoints limits the number of samples (default and at most 5000). A Step that is too small is made larger.
	MaxPoints int
}

// Samples is the answer to a SampleQuery.
type Samples struct {
	// Step is the width of each sample. Starts are whole multiples of it since 1970.
	Step time.Duration
	// FromUS is the start of the first step.
	FromUS int64
	// Points are in order of time. An idle step has no sample.
	Points []Sample
}

const maxPoints = 5000

// steps are the widths from which an automatic step is chosen, in seconds.
var steps = [...]int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
	604800}

// Samples returns the samples of a query. It reads the coarsest rows that are fine enough. Where fine rows are no
// longer kept, it reads coarser ones.
func (s *Store) Samples(ctx context.Context, q SampleQuery) (Samples, error) {
	if q.Model == "" {
		return Samples{}, errors.New("query of samples names no model")
	}
	if q.FromUS < 0 || q.ToUS <= q.FromUS {
		return Samples{}, fmt.Errorf("query of samples from %d to %d: want 0 <= from < to, in microseconds since 1970",
			q.FromUS, q.ToUS)
	}
	step := s.chooseStep(q)
	from := q.FromUS - q.FromUS%step
	out := Samples{Step: time.Duration(step) * time.Microsecond, FromUS: from}
	level := levelFor(step)
	var filter string
	args := []any{q.Model, from, q.ToUS}
	if q.Version != 0 {
		filter = " AND version = ?"
		args = append(args, q.Version)
	}
	merged := make(map[int64]*accumulator)
	for p, err := range each(ctx, s.r, (*Sample).columns, `SELECT start_us, `+numbers+`, latency
		FROM series JOIN `+levels[level].table+` ON series_id = id
		WHERE model = ? AND start_us >= ? AND start_us < ?`+filter, args...) {
		if err != nil {
			return Samples{}, about(err, "history of model %q", q.Model)
		}
		at := p.StartUS - p.StartUS%step
		a := merged[at]
		if a == nil {
			a = &accumulator{sum: Sample{Model: q.Model, Version: q.Version, StartUS: at}}
			merged[at] = a
		}
		a.add(&p)
	}
	out.Points = make([]Sample, 0, len(merged))
	for _, a := range merged {
		out.Points = append(out.Points, a.done())
	}
	slices.SortFunc(out.Points, func(a, b Sample) int { return cmp.Compare(a.StartUS, b.StartUS) })
	return out, nil
}

// StepFor returns the step that the samples of a query have.
func (s *Store) StepFor(q SampleQuery) time.Duration {
	return time.Duration(s.chooseStep(q)) * time.Microsecond
}

// chooseStep returns a step in microseconds that is a multiple of the width of the level from which it is read.
func (s *Store) chooseStep(q SampleQuery) int64 {
	points := int64(q.MaxPoints)
	if points <= 0 || points > maxPoints {
		points = maxPoints
	}
	span := q.ToUS - q.FromUS
	least := max(q.Step.Microseconds(), (span+points-1)/points, second)
	// Finer rows may have been removed.
	switch age := nowUS() - q.FromUS; {
	case age > s.opt.KeepMinutes.Microseconds():
		least = max(least, hour)
	case age > s.opt.KeepSeconds.Microseconds():
		least = max(least, minute)
	}
	if q.Step == 0 {
		for _, n := range steps {
			if n*second >= least {
				least = n * second
				break
			}
		}
	}
	width := levels[levelFor(least)].width
	return (least + width - 1) / width * width
}

// levelFor returns the coarsest level that is not coarser than step.
func levelFor(step int64) int {
	for l := len(levels) - 1; l > 0; l-- {
		if step >= levels[l].width {
			return l
		}
	}
	return 0
}

// accumulator adds up samples.
type accumulator struct {
	sum  Sample
	n    int
	hist *Histogram // from the second sample on
}

func (a *accumulator) add(p *Sample) {
	to := a.sum.numbers()
	for i, n := range p.numbers() {
		*to[i] += *n
	}
	a.n++
	switch {
	case a.n == 1:
		a.sum.Latency = p.Latency
		return
	case a.hist == nil:
		a.hist = a.sum.Histogram()
	}
	a.hist.Merge(p.Histogram())
}

func (a *accumulator) done() Sample {
	if a.hist != nil {
		a.sum.Latency, _ = a.hist.MarshalBinary()
	}
	return a.sum
}

func (p *Sample) columns() []any {
	to := []any{&p.StartUS}
	for _, n := range p.numbers() {
		to = append(to, n)
	}
	return append(to, &p.Latency)
}

// Oldest returns the start of the oldest sample that is kept, in microseconds; 0 if there is none.
func (s *Store) Oldest(ctx context.Context) (int64, error) {
	var oldest sql.NullInt64
	err := s.r.QueryRowContext(ctx, `SELECT min(first) FROM (
		SELECT (SELECT min(start_us) FROM sample_hour WHERE series_id = id) AS first FROM series)`).Scan(&oldest)
	return oldest.Int64, about(err, "history")
}
