package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Sample is what one version of a model did in a period. All numbers are sums over that period.
type Sample struct {
	Model   string
	Version int64 // 0 in results that add up all versions
	// StartUS is the start of the period. RecordSamples takes any time within a second for that second.
	StartUS int64

	Requests  int64 // finished requests: Successes and the four kinds of failures
	Successes int64
	Failures  Failures

	Inferences int64 // rows of successful requests, as Triton counts them
	Executions int64 // executed batches
	BatchRows  int64 // rows in those batches; BatchRows/Executions is the mean batch size

	QueueNS, ComputeInputNS, ComputeInferNS, ComputeOutputNS, RequestNS int64

	// Latency is the encoded Histogram of the request durations, empty if there are none.
	Latency []byte
}

// Failures counts failed requests by Triton's reasons.
type Failures struct {
	Rejected, Canceled, Backend, Other int64
}

// Total returns the number of failed requests.
func (f Failures) Total() int64 { return f.Rejected + f.Canceled + f.Backend + f.Other }

// Histogram decodes Latency. A histogram that cannot be read is empty.
func (p *Sample) Histogram() *Histogram {
	h := new(Histogram)
	_ = h.UnmarshalBinary(p.Latency) // leaves h empty; the other numbers are still valid
	return h
}

const (
	second = int64(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
)

// levels are the tables of samples, finest first.
var levels = [...]struct {
	table string
	width int64 // microseconds
}{
	{"sample_second", second},
	{"sample_minute", minute},
	{"sample_hour", hour},
}

// numbers are the summed columns of a sample, in the order of (*Sample).numbers.
const numbers = "requests, successes, rejected, canceled, backend_errors, other_errors, " +
	"inferences, executions, batch_rows, queue_ns, compute_input_ns, compute_infer_ns, compute_output_ns, request_ns"

func (p *Sample) numbers() []*int64 {
	return []*int64{
		&p.Requests, &p.Successes, &p.Failures.Rejected, &p.Failures.Canceled, &p.Failures.Backend, &p.Failures.Other,
		&p.Inferences, &p.Executions, &p.BatchRows,
		&p.QueueNS, &p.ComputeInputNS, &p.ComputeInferNS, &p.ComputeOutputNS, &p.RequestNS,
	}
}

// RecordSamples queues samples to be stored and returns at once. Samples of the same version and second add up. The
// store takes ownership of the slice and what it points to. RecordSamples returns false if the samples were dropped,
// because the queue is full or the store is closed.
func (s *Store) RecordSamples(batch []Sample) bool {
	ok := len(batch) == 0 || offer(s, s.samples, batch)
	if !ok {
		s.health.change(func(h *Health) { h.DroppedSamples += uint64(len(batch)) })
	}
	return ok
}

// valid reports whether a sample can be added to others: no negative numbers, no time before 1970, and a histogram that
// can be read.
func (p *Sample) valid() bool {
	if p.Model == "" || p.StartUS < 0 {
		return false
	}
	for _, n := range p.numbers() {
		if *n < 0 {
			return false
		}
	}
	return new(Histogram).UnmarshalBinary(p.Latency) == nil
}

type seriesKey struct {
	model   string
	version int64
}

// writeSamples adds the pending samples to their second, minute and hour.
func (w *writer) writeSamples(ctx context.Context, tx *sql.Tx) error {
	if len(w.samples) == 0 {
		return nil
	}
	var upsert [len(levels)]*sql.Stmt
	for i, level := range levels {
		st, err := tx.PrepareContext(ctx, upsertSQL(level.table))
		if err != nil {
			return err
		}
		defer st.Close()
		upsert[i] = st
	}
	invalid := 0
	args := make([]any, 0, 17)
	for i := range w.samples {
		p := &w.samples[i]
		if !p.valid() {
			invalid++
			continue
		}
		id, err := w.seriesID(ctx, tx, seriesKey{p.Model, p.Version})
		if err != nil {
			return err
		}
		for l, level := range levels {
			args = append(args[:0], id, p.StartUS-p.StartUS%level.width)
			for _, n := range p.numbers() {
				args = append(args, *n)
			}
			if args = append(args, p.Latency); p.Latency == nil {
				args[len(args)-1] = []byte{}
			}
			if _, err := upsert[l].ExecContext(ctx, args...); err != nil {
				return err
			}
		}
	}
	if invalid > 0 {
		w.dropped(invalid, 0, 0)
		w.s.opt.Log.Warn("history: samples that are not valid were dropped", "samples", invalid)
	}
	return nil
}

func upsertSQL(table string) string {
	columns := strings.Split(numbers, ", ")
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (series_id, start_us, %s, latency) VALUES (?, ?%s, ?) ON CONFLICT DO UPDATE SET ",
		table, numbers, strings.Repeat(", ?", len(columns)))
	for _, c := range columns {
		fmt.Fprintf(&b, "%s = %s + excluded.%s, ", c, c, c)
	}
	b.WriteString("latency = hist_merge(coalesce(latency, x''), excluded.latency)")
	return b.String()
}

func (w *writer) seriesID(ctx context.Context, tx *sql.Tx, k seriesKey) (int64, error) {
	if id, ok := w.series[k]; ok {
		return id, nil
	}
	const q = `INSERT INTO series (model, version) VALUES (?, ?) ON CONFLICT DO UPDATE SET model = model RETURNING id`
	var id int64
	if err := tx.QueryRowContext(ctx, q, k.model, k.version).Scan(&id); err != nil {
		return 0, err
	}
	w.series[k] = id
	return id, nil
}
