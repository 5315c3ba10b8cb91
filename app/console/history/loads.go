package history

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"nereid/app/console/api"
	record "nereid/app/history"
	"nereid/store"
)

// shownLoads is how many loads of a model are shown, and loadPoints about how many samples of each are read.
const shownLoads, loadPoints = 20, 300

// Loads returns the last loads of a model, with the configuration of each, what was measured until the next, and how
// busy the machine was.
func (h *Handler) Loads(r *http.Request) (out api.ModelLoads, err error) {
	events, err := h.Store.Events(r.Context(), store.EventQuery{Model: r.PathValue("name"),
		Kinds: []string{record.Load, record.Reload}, Limit: shownLoads})
	if err != nil {
		return out, err
	}
	ends := map[int64]int64{} // of each version: when it was loaded next
	for _, e := range events {
		d := record.DetailOf(e)
		l := api.ModelLoad{Version: strconv.FormatInt(e.Version, 10), TMs: e.TimeUS / 1000,
			EndMs: ends[e.Version] / 1000, Config: d.Config, Files: d.Files, Revision: d.Revision}
		to := ends[e.Version]
		if to == 0 {
			to = time.Now().UnixMicro()
		}
		ends[e.Version] = e.TimeUS
		if err := h.measured(r.Context(), e, to, &l); err != nil {
			return out, err
		}
		out.Loads = append(out.Loads, l)
	}
	return out, nil
}

// measured adds what a version did from its load to a time.
func (h *Handler) measured(ctx context.Context, e store.Event, toUS int64, l *api.ModelLoad) error {
	if toUS <= e.TimeUS {
		return nil
	}
	got, err := h.Store.Samples(ctx, store.SampleQuery{Model: e.Model, Version: e.Version, FromUS: e.TimeUS, ToUS: toUS,
		MaxPoints: loadPoints})
	if err != nil {
		return err
	}
	var all store.Histogram
	var succeeded, ns int64
	for i := range got.Points {
		p := &got.Points[i]
		if p.StartUS+got.Step.Microseconds() <= e.TimeUS {
			continue
		}
		l.Requests += p.Requests
		l.Failures += p.Failures.Total()
		succeeded, ns = succeeded+p.Successes, ns+p.RequestNS
		all.Merge(p.Histogram())
	}
	if succeeded > 0 {
		l.MeanUs = float64(ns) / float64(succeeded) / 1000
	}
	l.P50Us, l.P99Us = quantile(&all, 0.5), quantile(&all, 0.99)
	minute := time.Minute.Microseconds()
	for name, model := range map[string]string{record.CPU: "", record.Memory: e.Model} {
		gauges, err := h.Store.Gauges(ctx, name, model, e.TimeUS-e.TimeUS%minute, toUS)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, g := range gauges {
			sum += g.Mean
		}
		switch mean := sum / float64(max(len(gauges), 1)); {
		case len(gauges) == 0:
		case name == record.CPU:
			l.CPU = &mean
		default:
			l.MemoryBytes = int64(mean)
		}
	}
	return nil
}
