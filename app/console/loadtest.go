package console

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/perf"
	"nereid/engine/client"
	"nereid/store"
)

const (
	maxLoadLevel  = 1024
	maxLoadLevels = 64
)

// loadTests are the load test that runs, of which there is one at a time: see measuring. The last
// one of each model is in the store.
type loadTests struct {
	mu     sync.Mutex
	model  string       // guarded by mu, as are the next; "" while none runs
	now    api.LoadTest // of model
	cancel context.CancelFunc
}

// loadTestKey is the setting that has the last load test of a model.
func loadTestKey(model string) string { return "load-test/" + model }

// getLoadTest answers the load test that runs, or the last one.
func (c *Console) getLoadTest(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, _, err := c.locate(name); err != nil {
		return err
	}
	if t, ok := c.loadTests.running(name); ok {
		return reply(w, t)
	}
	out := api.LoadTest{State: api.LoadTestNone}
	b, err := c.o.Store.Setting(r.Context(), loadTestKey(name))
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return reply(w, out)
}

// running is the load test of a model, if it is the one that runs.
func (l *loadTests) running(model string) (api.LoadTest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.now
	t.Points = slices.Clone(t.Points)
	return t, l.model != "" && l.model == model
}

// change lets f change the load test that runs.
func (l *loadTests) change(f func(*api.LoadTest)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.now)
}

// postLoadTest begins a load test. It goes on when the page is closed.
func (c *Console) postLoadTest(w http.ResponseWriter, r *http.Request) error {
	var req api.StartLoadTest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	levels, window, err := loadLevels(&req)
	if err != nil {
		return err
	}
	st, _, err := c.locate(r.PathValue("name"))
	if err != nil {
		return err
	}
	v, err := readyVersion(st, "")
	if err != nil {
		return err
	}
	switch {
	case c.o.DialInference == nil:
		return fail(api.CodeUnavailable, "the inference server over HTTP is turned off; start without --allow-http=false to measure models here")
	case v.Model.Decoupled():
		return fail(api.CodeInvalid, "model %q may answer many times (it is decoupled); measure it with nereid perf -i grpc --streaming", st.Name)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	o, err := c.loadOptions(ctx, st.Name, &req, window)
	if err != nil {
		cancel()
		return err
	}
	t := api.LoadTest{State: api.LoadTestRunning, StartedMs: time.Now().UnixMilli(), Batch: req.Batch, Levels: levels}
	end, err := c.measuring.begin("model " + quote(st.Name) + " is being measured")
	if err != nil {
		cancel()
		return errors.Join(err, o.Target.Close())
	}
	l := &c.loadTests
	l.mu.Lock()
	l.model, l.now, l.cancel = st.Name, t, cancel
	l.mu.Unlock()
	c.wg.Go(func() { c.runLoadTest(ctx, st.Name, o, end) })
	writeJSON(w, http.StatusAccepted, t)
	return nil
}

// loadLevels checks what is asked for and fills in what is left out.
func loadLevels(req *api.StartLoadTest) (levels []int, window time.Duration, err error) {
	if req.Batch == 0 {
		req.Batch = 1
	}
	if req.WindowMs == 0 {
		req.WindowMs = 1000
	}
	switch {
	case req.From < 1 || req.To < req.From || req.To > maxLoadLevel || req.Step < 1:
		return nil, 0, fail(api.CodeInvalid, "levels from %d to %d by %d: want 1 to %d, upwards", req.From, req.To, req.Step, maxLoadLevel)
	case (req.To-req.From)/req.Step >= maxLoadLevels:
		return nil, 0, fail(api.CodeInvalid, "levels from %d to %d by %d are more than %d; take a larger step", req.From, req.To, req.Step, maxLoadLevels)
	case req.WindowMs < 100 || req.WindowMs > 60_000:
		return nil, 0, fail(api.CodeInvalid, "windowMs %d must be from 100 to 60000", req.WindowMs)
	}
	for n := req.From; n <= req.To; n += req.Step {
		levels = append(levels, n)
	}
	return levels, time.Duration(req.WindowMs) * time.Millisecond, nil
}

// loadOptions learns the model and makes its inputs: random values, sizes that are free taken as 1.
func (c *Console) loadOptions(ctx context.Context, name string, req *api.StartLoadTest, window time.Duration) (perf.Options, error) {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.o.DialInference(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxLoadLevel + 1,
	}
	h, err := client.NewHTTP("http://localhost", client.HTTPOptions{Client: &http.Client{Transport: transport}, Header: c.o.InferenceHeader})
	if err != nil {
		return perf.Options{}, err
	}
	o := perf.Options{
		Target: perf.NewUnary(h), Server: h, Batch: req.Batch, Window: window,
		Concurrency: &perf.Range{Start: float64(req.From), End: float64(req.To), Step: float64(req.Step)},
	}
	if o.Model, err = perf.Describe(ctx, h, name, "", nil); err != nil {
		return o, errors.Join(err, h.Close())
	}
	if o.Batch < 1 || o.Batch > max(1, o.Model.MaxBatchSize) {
		return o, errors.Join(fail(api.CodeInvalid, "batch %d must be from 1 to max_batch_size, %d", o.Batch, o.Model.MaxBatchSize), h.Close())
	}
	var inputs perf.InputOptions
	inputs.FillFree(&o.Model)
	if o.Data, err = perf.Generate(&o.Model, inputs); err != nil {
		return o, errors.Join(fail(api.CodeInvalid, "no requests can be made up: %v", err), h.Close())
	}
	return o, nil
}

// runLoadTest measures level by level, also past one whose windows do not agree, and keeps the result.
func (c *Console) runLoadTest(ctx context.Context, model string, o perf.Options, end func()) {
	l := &c.loadTests
	defer func() { _ = o.Target.Close() }() // the load is over
	levels := *o.Concurrency
	var err error
	for n := levels.Start; n <= levels.End && err == nil; n += levels.Step {
		o.Concurrency = &perf.Range{Start: n, End: n, Step: 1}
		o.Events = perf.Events{
			Window: func(_ float64, p *perf.Point) { l.change(func(t *api.LoadTest) { q := loadPoint(p); t.Now = &q }) },
			Point: func(p *perf.Point) {
				l.change(func(t *api.LoadTest) { t.Points, t.Now = append(t.Points, loadPoint(p)), nil })
			},
		}
		_, err = perf.Run(ctx, o)
	}
	result, _ := l.running(model)
	result.State, result.EndedMs, result.Now = api.LoadTestDone, time.Now().UnixMilli(), nil
	switch {
	case ctx.Err() != nil:
		result.State = api.LoadTestStopped
	case err != nil:
		result.State, result.Reason = api.LoadTestFailed, err.Error()
	}
	b, err := json.Marshal(result)
	if err == nil {
		err = c.o.Store.SetSetting(context.WithoutCancel(ctx), loadTestKey(model), b)
	}
	if err != nil {
		c.log.Error("a load test is not kept", "model", model, "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	l.model, l.now = "", api.LoadTest{}
	end()
}

func loadPoint(p *perf.Point) api.LoadPoint {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	out := api.LoadPoint{
		Level: int(p.Level), Requests: float64(p.Requests), Rate: p.Throughput(), MeanUs: us(p.Latency.Mean()), P50Us: us(p.Latency.Quantile(.5)),
		P95Us: us(p.Latency.Quantile(.95)), P99Us: us(p.Latency.Quantile(.99)), Stable: p.Stable,
	}
	if s := p.Server; s != nil {
		out.QueueUs, out.ComputeUs = us(s.Queue.Mean()), us(s.Compute().Mean())
	}
	return out
}

// deleteLoadTest stops the load test that runs. It has ended soon after, with what was measured.
func (c *Console) deleteLoadTest(w http.ResponseWriter, r *http.Request) error {
	l := &c.loadTests
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.model == "" || l.model != r.PathValue("name") {
		return fail(api.CodeConflict, "model %s is not being measured", quote(r.PathValue("name")))
	}
	l.cancel()
	t := l.now
	t.Points = slices.Clone(t.Points)
	return reply(w, t)
}
