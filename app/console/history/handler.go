package history

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/console/stream"
	record "nereid/app/history"
	"nereid/engine/refusals"
	"nereid/store"
)

// Handler serves the routes about the past.
type Handler struct {
	Store    *store.Store
	Recorder *record.Recorder
	Streams  *stream.Hub
	Refusals *refusals.Log // nil: none
}

// Listener returns the functions by which the recorder publishes to the event streams.
func (h *Handler) Listener() record.Listener {
	publishEvent := func(e store.Event) { h.Streams.Publish("event", apiEvent(e)) }
	return record.Listener{Second: h.publishSecond, Event: publishEvent}
}

func (h *Handler) publishSecond(s record.Second) {
	if len(s.Samples) == 0 || !h.Streams.Wanted("samples") {
		return
	}
	e := samplesEvent(s, h.Recorder.Recent)
	e.RefusedMinute = h.Refusals.LastMinute()
	h.Streams.Publish("samples", e)
}

// samplesEvent returns a second for the stream. recent is Recorder.Recent.
func samplesEvent(s record.Second, recent func(model string, version int64) ([]store.Sample, int64)) api.SamplesEvent {
	out := api.SamplesEvent{TMs: s.StartUS / 1000}
	for i := range s.Samples {
		p := &s.Samples[i]
		minute, _ := recent(p.Model, p.Version)
		if len(minute) == 0 {
			continue // with many idle models they would be nearly all of the stream
		}
		v := derive(p)
		p50, p99 := latencies(minute)
		out.Samples = append(out.Samples, api.Sample{
			Model: p.Model, Version: strconv.FormatInt(p.Version, 10),
			Requests: float64(p.Requests), Failures: float64(p.Failures.Total()),
			P50Us: v.p50, P95Us: v.p95, P99Us: v.p99, QueueUs: v.queue, ComputeUs: v.compute, BatchMean: v.batch,
			MinuteP50Us: p50, MinuteP99Us: p99,
		})
	}
	return out
}

const autoPoints = 600 // of a series whose step the server chooses

// numberOf reads a whole number of a query; an absent one is def.
func numberOf(q url.Values, name string, def int64) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0, rest.Errorf(api.CodeInvalid, "%s=%s is not a whole number of 0 or more", name, rest.Quote(text))
	}
	return n, nil
}

// seriesQuery reads the query of a request for time series.
func seriesQuery(q url.Values) (ask store.SampleQuery, err error) {
	to, err := numberOf(q, "to", time.Now().UnixMilli())
	if err != nil {
		return ask, err
	}
	from, err := numberOf(q, "from", max(to-15*60*1000, 0))
	if err != nil {
		return ask, err
	}
	step, err := numberOf(q, "step", 0)
	if err != nil {
		return ask, err
	}
	if ask.Version, err = numberOf(q, "version", 0); err != nil {
		return ask, err
	}
	if from >= to {
		return ask, rest.Errorf(api.CodeInvalid, "from=%d must be before to=%d", from, to)
	}
	ask.Model, ask.FromUS, ask.ToUS, ask.Step = q.Get("model"), from*1000, to*1000, time.Duration(step)*time.Millisecond
	if step == 0 {
		ask.MaxPoints = autoPoints
	}
	return ask, nil
}

// Series returns the time series of each version, or with most=n in the query those of the n busiest and the total.
func (h *Handler) Series(r *http.Request) (out api.History, err error) {
	ask, err := seriesQuery(r.URL.Query())
	if err != nil {
		return out, err
	}
	most, err := numberOf(r.URL.Query(), "most", 0)
	if err != nil {
		return out, err
	}
	spans, err := h.spans(r.Context(), ask)
	if err != nil {
		return out, err
	}
	out = api.History{FromMs: ask.FromUS / 1000, ToMs: ask.ToUS / 1000, StepMs: h.Store.StepFor(ask).Milliseconds()}
	keys := slices.SortedFunc(maps.Keys(spans), compareKeys)
	if most > 0 {
		if keys, err = h.busiest(r.Context(), ask, most, &out); err != nil {
			return out, err
		}
	}
	for _, k := range keys {
		ask.Model, ask.Version = k.model, k.version
		got, err := h.Store.Samples(r.Context(), ask)
		if err != nil {
			return out, err
		}
		out.StepMs = got.Step.Milliseconds()
		if s := makeSeries(k, got, spans[k], ask.ToUS); len(s.TMs) > 0 {
			out.Series = append(out.Series, s)
		}
	}
	return out, nil
}

// busiest returns the versions with the most requests, in the order of their names. It adds to out what others need:
// the total, and the names of all models.
func (h *Handler) busiest(ctx context.Context, ask store.SampleQuery, most int64, out *api.History) ([]seriesKey,
	error) {
	totals, err := h.Store.Totals(ctx, ask)
	if err != nil {
		return nil, err
	}
	out.Busy = len(totals.Series)
	var keys []seriesKey
	for _, s := range totals.Series[:min(most, int64(len(totals.Series)))] {
		keys = append(keys, seriesKey{s.Model, s.Version})
	}
	slices.SortFunc(keys, compareKeys)
	loaded, err := h.spans(ctx, store.SampleQuery{FromUS: ask.FromUS, ToUS: ask.ToUS}) // of all models
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	var together []store.Span
	for k, spans := range loaded {
		names[k.model] = true
		if fits(k, ask) {
			together = append(together, spans...)
		}
	}
	out.Models = slices.Sorted(maps.Keys(names))
	total := makeSeries(seriesKey{}, store.Samples{Step: totals.Step, FromUS: totals.FromUS, Points: totals.Points},
		union(together), ask.ToUS)
	out.Total = &total
	return keys, nil
}

// fits reports whether a version is asked for.
func fits(k seriesKey, q store.SampleQuery) bool {
	return (q.Model == "" || k.model == q.Model) && (q.Version == 0 || k.version == q.Version)
}

// spans returns when each version was loaded, by version: as stored, and up to now for those that still are.
func (h *Handler) spans(ctx context.Context, q store.SampleQuery) (map[seriesKey][]store.Span, error) {
	stored, err := h.Store.Spans(ctx, q.Model, q.Version, q.FromUS, q.ToUS)
	if err != nil {
		return nil, err
	}
	out := map[seriesKey][]store.Span{}
	for _, p := range append(stored, h.Recorder.Loaded()...) {
		k := seriesKey{p.Model, p.Version}
		if !fits(k, q) || p.ToUS <= q.FromUS || p.FromUS >= q.ToUS {
			continue
		}
		if i := slices.IndexFunc(out[k], func(o store.Span) bool { return o.FromUS == p.FromUS }); i >= 0 {
			out[k][i].ToUS = max(out[k][i].ToUS, p.ToUS) // the stored start of a span that goes on
			continue
		}
		out[k] = append(out[k], p)
	}
	return out, nil
}

// Events lists events, the latest first.
func (h *Handler) Events(r *http.Request) (out api.Events, err error) {
	q := r.URL.Query()
	ask := store.EventQuery{Model: q.Get("model"), Limit: 200}
	for name, to := range map[string]*int64{"from": &ask.FromUS, "to": &ask.ToUS, "before": &ask.BeforeID} {
		if *to, err = numberOf(q, name, 0); err != nil {
			return out, err
		}
	}
	ask.FromUS *= 1000
	ask.ToUS *= 1000
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return out, rest.Errorf(api.CodeInvalid, "limit=%s must be from 1 to 1000", rest.Quote(text))
		}
		ask.Limit = n
	}
	if kind := q.Get("kind"); kind != "" {
		ask.Kinds = strings.Split(kind, ",")
	}
	want := ask.Limit
	ask.Limit = want + 1 // to know whether there are more
	list, err := h.Store.Events(r.Context(), ask)
	if err != nil {
		return out, err
	}
	if out.More = len(list) > want; out.More {
		list = list[:want]
	}
	for _, e := range list {
		out.Events = append(out.Events, apiEvent(e))
	}
	return out, nil
}

// apiEvent returns an event as the console's interface shows it.
func apiEvent(e store.Event) api.Event {
	d := record.DetailOf(e)
	out := api.Event{ID: e.ID, TMs: e.TimeUS / 1000, Kind: api.EventKind(e.Kind), Severity: api.SeverityInfo,
		Model: e.Model, Text: e.Reason, DurationMs: d.DurationMs, Revision: d.Revision,
		Config: d.Config}
	if e.Version != 0 {
		out.Version = strconv.FormatInt(e.Version, 10)
	}
	switch e.Kind {
	case record.LoadFailed, record.ReloadFailed, record.ImportFailed, record.RepositoryError,
		record.ProcessEnded:
		out.Severity = api.SeverityError
	case record.ClientError, record.HistoryDropped, record.Alert:
		out.Severity = api.SeverityWarning
	}
	return out
}
