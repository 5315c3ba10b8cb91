package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/history"
	"nereid/store"
)

// shown are the derived numbers of a sample; nil where there is nothing to derive them from.
type shown struct {
	p50, p95, p99, queue, compute, batch *float64
}

func values(p *store.Sample) shown {
	var v shown
	if len(p.Latency) > 0 {
		h := p.Histogram()
		v.p50, v.p95, v.p99 = quantile(h, 0.50), quantile(h, 0.95), quantile(h, 0.99)
	}
	v.queue = mean(p.QueueNS, p.Successes)
	v.compute = mean(p.ComputeInputNS+p.ComputeInferNS+p.ComputeOutputNS, p.Successes)
	if p.Executions > 0 {
		b := float64(p.BatchRows) / float64(p.Executions)
		v.batch = &b
	}
	return v
}

const autoPoints = 600

// numberOf reads a whole number of a query; an absent one is def.
func numberOf(q url.Values, name string, def int64) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0, fail(api.CodeInvalid, "%s=%s is not a whole number of 0 or more", name, quote(text))
	}
	return n, nil
}

func (c *Console) getHistory(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	now := time.Now().UnixMilli()
	to, err := numberOf(q, "to", now)
	if err != nil {
		return err
	}
	from, err := numberOf(q, "from", to-15*60*1000)
	if err != nil {
		return err
	}
	step, err := numberOf(q, "step", 0)
	if err != nil {
		return err
	}
	version, err := numberOf(q, "version", 0)
	if err != nil {
		return err
	}
	if from = max(from, 0); from >= to {
		return fail(api.CodeInvalid, "from=%d must be before to=%d", from, to)
	}
	ask := store.SampleQuery{FromUS: from * 1000, ToUS: to * 1000, Step: time.Duration(step) * time.Millisecond}
	if step == 0 {
		ask.MaxPoints = autoPoints
	}
	spans, err := c.spans(r, q.Get("model"), version, ask)
	if err != nil {
		return err
	}
	out := api.History{FromMs: from, ToMs: to}
	keys := slices.SortedFunc(maps.Keys(spans), func(a, b seriesKey) int {
		if n := strings.Compare(a.model, b.model); n != 0 {
			return n
		}
		return int(a.version - b.version)
	})
	for _, k := range keys {
		ask.Model, ask.Version = k.model, k.version
		got, err := c.o.Store.Samples(r.Context(), ask)
		if err != nil {
			return err
		}
		out.StepMs = got.Step.Milliseconds()
		if s := makeSeries(k, got, spans[k], ask); len(s.TMs) > 0 {
			out.Series = append(out.Series, s)
		}
	}
	if out.StepMs == 0 {
		out.StepMs = c.o.Store.StepFor(ask).Milliseconds()
	}
	return reply(w, out)
}

type seriesKey struct {
	model   string
	version int64
}

// spans answers when each version was loaded, by version: as stored, and up to now for those that still are.
func (c *Console) spans(r *http.Request, model string, version int64, q store.SampleQuery) (map[seriesKey][]store.Span, error) {
	stored, err := c.o.Store.Spans(r.Context(), model, version, q.FromUS, q.ToUS)
	if err != nil {
		return nil, err
	}
	out := map[seriesKey][]store.Span{}
	for _, p := range append(stored, c.o.Recorder.Loaded()...) {
		if model != "" && p.Model != model || version != 0 && p.Version != version || p.ToUS <= q.FromUS || p.FromUS >= q.ToUS {
			continue
		}
		k := seriesKey{p.Model, p.Version}
		if i := slices.IndexFunc(out[k], func(o store.Span) bool { return o.FromUS == p.FromUS }); i >= 0 {
			out[k][i].ToUS = max(out[k][i].ToUS, p.ToUS) // the stored part of one that goes on
			continue
		}
		out[k] = append(out[k], p)
	}
	return out, nil
}

// makeSeries lays samples out in columns: one entry for each step in which the version was loaded or did something.
func makeSeries(k seriesKey, got store.Samples, spans []store.Span, q store.SampleQuery) api.Series {
	s := api.Series{Model: k.model, Version: strconv.FormatInt(k.version, 10)}
	step := got.Step.Microseconds()
	next := 0
	for at := got.FromUS; at < q.ToUS; at += step {
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
		if loaded == 0 { // its span was lost with a crash
			loaded = min(step, 1_000_000)
		}
		v := values(p)
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

// overlap is how much of from..to the spans cover, in microseconds; spans do not overlap one another.
func overlap(spans []store.Span, from, to int64) (sum int64) {
	for _, p := range spans {
		sum += max(min(p.ToUS, to)-max(p.FromUS, from), 0)
	}
	return min(sum, to-from)
}

func (c *Console) getEvents(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	ask := store.EventQuery{Model: q.Get("model"), Limit: 200}
	for name, to := range map[string]*int64{"from": &ask.FromUS, "to": &ask.ToUS, "before": &ask.BeforeID} {
		n, err := numberOf(q, name, 0)
		if err != nil {
			return err
		}
		*to = n
	}
	ask.FromUS *= 1000
	ask.ToUS *= 1000
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return fail(api.CodeInvalid, "limit=%s must be from 1 to 1000", quote(text))
		}
		ask.Limit = n
	}
	if kind := q.Get("kind"); kind != "" {
		ask.Kinds = strings.Split(kind, ",")
	}
	want := ask.Limit
	ask.Limit = want + 1 // one more tells whether there is more
	list, err := c.o.Store.Events(r.Context(), ask)
	if err != nil {
		return err
	}
	var out api.Events
	if out.More = len(list) > want; out.More {
		list = list[:want]
	}
	for _, e := range list {
		out.Events = append(out.Events, apiEvent(e))
	}
	return reply(w, out)
}

func apiEvent(e store.Event) api.Event {
	d := history.DetailOf(e)
	out := api.Event{ID: e.ID, TMs: e.TimeUS / 1000, Kind: api.EventKind(e.Kind), Severity: api.SeverityInfo, Model: e.Model,
		Text: e.Reason, DurationMs: d.DurationMs, Revision: d.Revision}
	if e.Version != 0 {
		out.Version = strconv.FormatInt(e.Version, 10)
	}
	switch e.Kind {
	case history.LoadFailed, history.ReloadFailed, history.ImportFailed, history.RepositoryError:
		out.Severity = api.SeverityError
	case history.ClientError, history.HistoryDropped:
		out.Severity = api.SeverityWarning
	}
	return out
}
