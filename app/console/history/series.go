package history

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/store"
)

// derived are the numbers that follow from those of a sample; nil where there is nothing to derive them from.
type derived struct {
	p50, p95, p99, queue, compute, batch *float64
}

func derive(p *store.Sample) derived {
	var v derived
	if len(p.Latency) > 0 {
		h := p.Histogram()
		v.p50, v.p95, v.p99 = quantile(h, 0.50), quantile(h, 0.95), quantile(h, 0.99)
	}
	v.queue = mean(p.QueueNS, p.Successes, 1000)
	v.compute = mean(p.ComputeInputNS+p.ComputeInferNS+p.ComputeOutputNS, p.Successes, 1000)
	v.batch = mean(p.BatchRows, p.Executions, 1)
	return v
}

// quantile is a latency in microseconds; nil without requests.
func quantile(h *store.Histogram, q float64) *float64 {
	if h.Count() == 0 {
		return nil
	}
	return new(float64(h.Quantile(q)) / float64(time.Microsecond))
}

// mean is sum/n in units of unit; nil for no n.
func mean(sum, n int64, unit float64) *float64 {
	if n == 0 {
		return nil
	}
	return new(float64(sum) / float64(n) / unit)
}

const sparkSeconds = 60 // of a sparkline: one entry a second

// Recent returns the last minute of a version.
func (h *Handler) Recent(model string, version int64) api.Recent {
	return recentOf(h.Recorder.Recent(model, version))
}

// recentOf summarises the seconds of a minute that ends at endUS.
func recentOf(seconds []store.Sample, endUS int64) api.Recent {
	r := api.Recent{Spark: make([]float64, sparkSeconds), EndMs: endUS / 1000}
	failed := make([]float64, sparkSeconds)
	for i := range seconds {
		p := &seconds[i]
		r.Requests += p.Requests
		r.Failures += p.Failures.Total()
		if at := sparkSeconds - (endUS-p.StartUS)/1_000_000; at >= 0 && at < sparkSeconds {
			r.Spark[at] += float64(p.Requests)
			failed[at] += float64(p.Failures.Total())
		}
	}
	if r.Failures > 0 {
		r.FailureSpark = failed
	}
	r.QPS = float64(r.Requests) / sparkSeconds
	r.P50Us, r.P99Us = latencies(seconds)
	return r
}

// latencies returns those of all seconds together.
func latencies(seconds []store.Sample) (p50, p99 *float64) {
	var all store.Histogram
	for i := range seconds {
		all.Merge(seconds[i].Histogram())
	}
	return quantile(&all, 0.50), quantile(&all, 0.99)
}

type seriesKey struct {
	model   string
	version int64
}

func compareKeys(a, b seriesKey) int {
	return cmp.Or(strings.Compare(a.model, b.model), cmp.Compare(a.version, b.version))
}

// union returns the time that any of the spans covers, as spans that do not overlap.
func union(spans []store.Span) (out []store.Span) {
	slices.SortFunc(spans, func(a, b store.Span) int { return cmp.Compare(a.FromUS, b.FromUS) })
	for _, p := range spans {
		if n := len(out); n > 0 && p.FromUS <= out[n-1].ToUS {
			out[n-1].ToUS = max(out[n-1].ToUS, p.ToUS)
			continue
		}
		out = append(out, store.Span{FromUS: p.FromUS, ToUS: p.ToUS})
	}
	return out
}

// makeSeries arranges samples in columns: one entry for each step in which the version was loaded or did something.
func makeSeries(k seriesKey, got store.Samples, spans []store.Span, toUS int64) api.Series {
	s := api.Series{Model: k.model, Version: strconv.FormatInt(k.version, 10)}
	step := got.Step.Microseconds()
	next := 0
	for at := got.FromUS; at < toUS; at += step {
		var p *store.Sample
		if next < len(got.Points) && got.Points[next].StartUS == at {
			p = &got.Points[next]
			next++
		}
		loaded := overlap(spans, at, at+step)
		if p == nil {
			if loaded == 0 {
				continue
			}
			p = &store.Sample{}
		}
		if loaded == 0 { // a crash lost its span
			loaded = min(step, 1_000_000)
		}
		v := derive(p)
		s.TMs = append(s.TMs, at/1000)
		s.Requests = append(s.Requests, float64(p.Requests))
		s.Failures = append(s.Failures, float64(p.Failures.Total()))
		s.QPS = append(s.QPS, float64(p.Requests)*1e6/float64(loaded))
		s.P50Us, s.P95Us, s.P99Us = append(s.P50Us, v.p50), append(s.P95Us, v.p95), append(s.P99Us, v.p99)
		s.QueueUs, s.ComputeUs = append(s.QueueUs, v.queue), append(s.ComputeUs, v.compute)
		s.BatchMean = append(s.BatchMean, v.batch)
	}
	return s
}

// overlap returns how much of from..to the spans cover, in microseconds. The spans do not overlap each other.
func overlap(spans []store.Span, from, to int64) (sum int64) {
	for _, p := range spans {
		sum += max(min(p.ToUS, to)-max(p.FromUS, from), 0)
	}
	return min(sum, to-from)
}
