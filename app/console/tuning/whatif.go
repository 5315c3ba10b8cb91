package tuning

import (
	"net/http"
	"strconv"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/whatif"
	"nereid/engine/inferencepb"
)

const (
	fewRequests  = 20 // fewer say nothing
	maxInstances = 1024
)

// WhatIf predicts the latency of a model's last requests with other settings.
func (h *Handler) WhatIf(r *http.Request, req *api.WhatIf) (out api.Prediction, err error) {
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	if h.Requests == nil {
		return out, rest.Errorf(api.CodeUnsupported, "this server does not record requests")
	}
	v, err := m.ReadyVersion("")
	if err != nil {
		return out, err
	}
	cfg := completed(m.Status)
	switch {
	case cfg.GetEnsembleScheduling() != nil, cfg.GetSequenceBatching() != nil, v.Model.Decoupled():
		return out, rest.Errorf(api.CodeUnsupported,
			"there are no predictions for ensembles, models with sequences and decoupled models")
	case req.Speed < 0.01 || req.Speed > 100:
		return out, rest.Errorf(api.CodeInvalid, "speed is %v; it must be from 0.01 to 100", req.Speed)
	case req.Instances < 1 || req.Instances > maxInstances:
		return out, rest.Errorf(api.CodeInvalid,
			"instances is %d; it must be from 1 to %d", req.Instances, maxInstances)
	case req.MaxBatchSize < 0 || req.MaxQueueDelayUs < 0:
		return out, rest.Errorf(api.CodeInvalid, "maxBatchSize and maxQueueDelayUs must not be negative")
	}
	out.Settings = batcherOf(cfg, v.Model.Instances())
	since := v.Since
	if resized := v.Model.Resized(); resized.After(since) { // requests before then ran on other instances
		since = resized
	}
	rec := whatif.Read(h.Requests.Log(), m.Name, v.Version, since, v.Model.Instances())
	if rec.Len() < fewRequests {
		return out, rest.Errorf(api.CodeUnavailable,
			"version %d of model %q has executed only %d of the last requests with these settings; %d are needed",
			v.Version, m.Name, rec.Len(), fewRequests)
	}
	out.Version, out.Requests = strconv.FormatInt(v.Version, 10), rec.Len()
	out.SpanMs, out.LargestBatch = float64(rec.Span())/float64(time.Millisecond), rec.Largest()
	present, _ := rec.Predict(settings(&out.Settings), 1)
	other, beyond := rec.Predict(settings(&req.BatcherSettings), req.Speed)
	out.Measured, out.Present = shown(&rec.Measured), shown(&present)
	out.Other, out.Beyond = shown(&other), beyond
	return out, nil
}

func batcherOf(cfg *inferencepb.ModelConfig, instances int) api.BatcherSettings {
	d := cfg.GetDynamicBatching()
	out := api.BatcherSettings{Dynamic: d != nil, MaxBatchSize: int(cfg.GetMaxBatchSize()),
		Instances: max(1, instances), MaxQueueDelayUs: int64(d.GetMaxQueueDelayMicroseconds())}
	for _, n := range d.GetPreferredBatchSize() {
		if n != cfg.GetMaxBatchSize() { // this one is completed where there is none, and changes nothing
			out.PreferredBatchSizes = append(out.PreferredBatchSizes, int(n))
		}
	}
	return out
}

func settings(s *api.BatcherSettings) whatif.Settings {
	return whatif.Settings{Dynamic: s.Dynamic, MaxBatchSize: s.MaxBatchSize, Preferred: s.PreferredBatchSizes,
		MaxQueueDelay: time.Duration(s.MaxQueueDelayUs) * time.Microsecond, Instances: s.Instances}
}

func shown(f *whatif.Figures) api.PredictedFigures {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return api.PredictedFigures{P50Us: us(f.P50), P99Us: us(f.P99), QueueUs: us(f.Queue), BatchMean: f.Rows,
		Busy: f.Busy}
}
