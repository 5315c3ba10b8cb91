package tuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/history"
	"nereid/app/perf"
	"nereid/engine/client"
	"nereid/store"
)

const (
	maxLoadLevel  = 1024
	maxLoadLevels = 64
)

// loadTestKey is the setting that has the last load test of a model.
func loadTestKey(model string) string { return "load-test/" + model }

// LoadTest returns the load test of a model that runs, or the last one.
func (h *Handler) LoadTest(r *http.Request) (out api.LoadTest, err error) {
	name := r.PathValue("name")
	if _, err := h.Catalog.Find(name); err != nil {
		return out, err
	}
	if t, _, ok := h.slot.loadTest(name); ok {
		return t, nil
	}
	out.State = api.LoadTestNone
	b, err := h.Store.Setting(r.Context(), loadTestKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// StartLoadTest starts a load test. It goes on when the page is closed.
func (h *Handler) StartLoadTest(r *http.Request, req *api.StartLoadTest) (out api.LoadTest, err error) {
	levels, err := loadLevels(req)
	if err != nil {
		return out, err
	}
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	v, err := m.ReadyVersion("")
	if err != nil {
		return out, err
	}
	switch {
	case h.Inference.Dial == nil:
		return out, rest.Errorf(api.CodeUnavailable,
			"the inference server over HTTP is turned off; start without --allow-http=false to measure models here")
	case v.Model.Decoupled():
		return out, rest.Errorf(api.CodeInvalid,
			"model %q may answer many times (it is decoupled); measure it with nereid perf -i grpc --streaming", m.Name)
	}
	o, err := h.perfOptions(r.Context(), m.Name, req)
	if err != nil {
		return out, err
	}
	job, err := h.slot.claim(m.Name, "measured")
	if err != nil {
		return out, errors.Join(err, o.Target.Close())
	}
	out = api.LoadTest{State: api.LoadTestRunning, StartedMs: time.Now().UnixMilli(), Batch: req.Batch, Levels: levels}
	running := out
	h.slot.update(func() {
		job.loadTest = &running
		job.cancel = h.Tasks.Start(func(ctx context.Context) { h.runLoadTest(ctx, m.Name, &running, o) })
	})
	return out, nil
}

// loadLevels checks a request, sets its defaults and returns the levels to measure.
func loadLevels(req *api.StartLoadTest) (levels []int, err error) {
	if req.Batch == 0 {
		req.Batch = 1
	}
	if req.WindowMs == 0 {
		req.WindowMs = 1000
	}
	switch {
	case req.From < 1 || req.To < req.From || req.To > maxLoadLevel || req.Step < 1 || req.Step > maxLoadLevel:
		return nil, rest.Errorf(api.CodeInvalid, "levels from %d to %d by %d: want 1 to %d, upwards",
			req.From, req.To, req.Step, maxLoadLevel)
	case (req.To-req.From)/req.Step >= maxLoadLevels:
		return nil, rest.Errorf(api.CodeInvalid, "levels from %d to %d by %d are more than %d; take a larger step",
			req.From, req.To, req.Step, maxLoadLevels)
	case req.WindowMs < 100 || req.WindowMs > 60_000:
		return nil, rest.Errorf(api.CodeInvalid, "windowMs %d must be from 100 to 60000", req.WindowMs)
	}
	for n := req.From; n <= req.To; n += req.Step {
		levels = append(levels, n)
	}
	return levels, nil
}

// perfOptions describes the model and generates its inputs: random values, with 1 for variable dimensions.
func (h *Handler) perfOptions(ctx context.Context, name string, req *api.StartLoadTest) (perf.Options, error) {
	c, err := client.NewHTTP("http://localhost", client.HTTPOptions{
		Client: &http.Client{Transport: h.Inference.Transport(maxLoadLevel + 1)}, Header: h.Inference.Header})
	if err != nil {
		return perf.Options{}, err
	}
	o := perf.Options{
		Target: perf.NewUnary(c), Server: c,
		RequestOptions: perf.RequestOptions{Batch: req.Batch},
		Load: perf.Load{
			Concurrency: &perf.Range{Start: float64(req.From), End: float64(req.To), Step: float64(req.Step)},
		},
		WindowOptions: perf.WindowOptions{Window: time.Duration(req.WindowMs) * time.Millisecond},
	}
	if o.Model, err = perf.Describe(ctx, c, name, "", nil); err != nil {
		return o, errors.Join(err, c.Close())
	}
	if most := max(1, o.Model.MaxBatchSize); o.Batch < 1 || o.Batch > most {
		err := rest.Errorf(api.CodeInvalid, "batch %d must be from 1 to %d", o.Batch, most)
		return o, errors.Join(err, c.Close())
	}
	var inputs perf.InputOptions
	inputs.FillFree(&o.Model)
	if o.Data, err = perf.Generate(&o.Model, inputs); err != nil {
		return o, errors.Join(rest.Errorf(api.CodeInvalid, "no requests can be made up: %v", err), c.Close())
	}
	return o, nil
}

// runLoadTest measures each level, also after one whose windows do not agree, and keeps the result.
func (h *Handler) runLoadTest(ctx context.Context, model string, t *api.LoadTest, o perf.Options) {
	defer h.slot.release()
	defer func() { _ = o.Target.Close() }()
	levels := *o.Concurrency
	o.Events = perf.Events{
		Window: func(_ float64, p *perf.Point) { h.slot.update(func() { t.Now = new(loadPoint(p)) }) },
		Point: func(p *perf.Point) {
			h.slot.update(func() { t.Points, t.Now = append(t.Points, loadPoint(p)), nil })
		},
	}
	var err error
	for n := levels.Start; n <= levels.End && err == nil; n += levels.Step {
		o.Concurrency = &perf.Range{Start: n, End: n, Step: 1}
		_, err = perf.Run(ctx, o)
	}
	result, _, _ := h.slot.loadTest(model)
	result.State, result.EndedMs, result.Now = api.LoadTestDone, time.Now().UnixMilli(), nil
	switch {
	case ctx.Err() != nil:
		result.State = api.LoadTestStopped
	case err != nil:
		result.State, result.Reason = api.LoadTestFailed, err.Error()
	}
	text := fmt.Sprintf("load test: %s after %d of %d levels", result.State, len(result.Points), len(result.Levels))
	h.note(history.LoadTest, model, text, result.Reason, result.EndedMs-result.StartedMs)
	b, err := json.Marshal(result)
	if err == nil {
		err = h.Store.SetSetting(context.WithoutCancel(ctx), loadTestKey(model), b)
	}
	if err != nil {
		h.Log.Error("a load test is not kept", "model", model, "err", err)
	}
}

func loadPoint(p *perf.Point) api.LoadPoint {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	out := api.LoadPoint{
		Level: int(p.Level), Requests: float64(p.Requests), Rate: p.Throughput(), Stable: p.Stable,
		MeanUs: us(p.Latency.Mean()),
		P50Us:  us(p.Latency.Quantile(.5)), P95Us: us(p.Latency.Quantile(.95)), P99Us: us(p.Latency.Quantile(.99)),
	}
	if s := p.Server; s != nil {
		out.QueueUs, out.ComputeUs = us(s.Queue.Mean()), us(s.Compute().Mean())
	}
	return out
}

// StopLoadTest stops the load test that runs. It ends soon after, with what was measured.
func (h *Handler) StopLoadTest(r *http.Request) (api.LoadTest, error) {
	name := r.PathValue("name")
	t, stop, ok := h.slot.loadTest(name)
	if !ok {
		return t, rest.Errorf(api.CodeConflict, "model %s is not being measured", rest.Quote(name))
	}
	stop()
	return t, nil
}
