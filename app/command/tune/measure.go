package tunecmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"nereid/app/perf"
	"nereid/app/tune"
	"nereid/engine/client"
	"nereid/engine/clock"
	"nereid/engine/inferencepb"
)

// tuner measures candidates of a model's configuration.
type tuner struct {
	model        tuneModel
	others       []tuneModel // measured at the same time
	parts        []tuneModel // that work for them
	options      []string    // of the private servers
	batch        int
	window       time.Duration
	trials       int // windows at most
	requests     int // of one window; 0: windows until they agree
	load         func(m *perf.Model) (*perf.Data, error)
	composing    []perf.ModelVersion
	rate         bool
	gpus         int
	tuneParts    bool   // the configurations of parts change too
	python       string // the folder of Python environments, shared with others; "": the private servers' own
	pythonFolder func(dataDir string) string
	scratch      string
	repositories int // made so far

	space   tune.Space
	present map[string]*inferencepb.ModelConfig // completed, by model
	server  *privateServer
	client  *client.HTTP
	variant string // that the server serves
	failed  string // why it does not
	loads   []tuneLoad
	point   func(c tune.Candidate, p *perf.Point) // hears of what is measured: nil as it begins, then of one model each window; nil: nobody does
}

// open makes the folder of its private servers.
func (t *tuner) open() (err error) {
	t.present = map[string]*inferencepb.ModelConfig{}
	if t.scratch, err = os.MkdirTemp("", "nereid-tune-"); err != nil || t.python == "" {
		return err
	}
	at := t.pythonFolder(t.dataDir())
	if err = errors.Join(os.MkdirAll(t.python, 0o700), os.MkdirAll(filepath.Dir(at), 0o700)); err == nil {
		err = os.Symlink(t.python, at) // processes that make an environment there wait for each other
	}
	if err != nil {
		err = errors.Join(err, t.close())
	}
	return err
}

// dataDir is that of the private servers.
func (t *tuner) dataDir() string { return filepath.Join(t.scratch, "data") }

// close ends the server and takes the folder away.
func (t *tuner) close() error {
	t.stop()
	return os.RemoveAll(t.scratch)
}

func (t *tuner) stop() {
	if t.server == nil {
		return
	}
	_ = t.client.Close()
	t.server.close()
	t.server, t.client = nil, nil
}

// tuned are the models that are measured.
func (t *tuner) tuned() []tuneModel { return append([]tuneModel{t.model}, t.others...) }

// models are those and their parts.
func (t *tuner) models() []tuneModel { return append(t.tuned(), t.parts...) }

// tuneLoad is what is sent to a model that is measured.
type tuneLoad struct {
	name  string
	shape perf.Model
	data  *perf.Data
}

// start ends the server that there is and starts one of the configurations with changes. failed is why the model does not load.
func (t *tuner) start(ctx context.Context, changes []tune.Change) (failed string, err error) {
	t.stop()
	t.repositories++
	root := filepath.Join(t.scratch, "repository-"+strconv.Itoa(t.repositories))
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", err
	}
	var names []string
	for _, m := range t.models() {
		text, err := tuneConfig(m.config, t.present[m.name], of(changes, m.name))
		if err != nil {
			return "", fmt.Errorf("model %q: %w", m.name, err)
		}
		if err := m.link(root, text); err != nil {
			return "", err
		}
		names = append(names, m.name)
	}
	slices.Reverse(names) // parts first
	if t.server, err = startPrivate(ctx, root, t.dataDir(), names, t.options); err != nil {
		return "", err
	}
	if t.client, err = t.server.client(); err != nil {
		t.server.close()
		t.server = nil
		return "", err
	}
	for _, name := range names {
		if failed, err = t.server.failure(ctx, t.client, name); err != nil || failed != "" {
			return failed, err
		}
		cfg, err := t.client.ModelConfig(ctx, name, "")
		if err != nil {
			return "", err
		}
		if failed = tuneTook(cfg, of(changes, name)); failed != "" {
			return failed, nil
		}
		if len(changes) == 0 {
			t.present[name] = cfg
		}
	}
	return "", nil
}

// of are the changes of one model.
func of(changes []tune.Change, model string) (out []tune.Change) {
	for _, c := range changes {
		if c.Model == model {
			out = append(out, c)
		}
	}
	return out
}

// learn starts the present configuration and makes the search's axes, and what is sent.
func (t *tuner) learn(ctx context.Context, l *tuneLists, m tuneMachine) error {
	failed, err := t.start(ctx, nil)
	if err != nil {
		return err
	}
	if failed != "" {
		return fmt.Errorf("model %q cannot be loaded as it is: %s", t.model.name, failed) // or one that it is with, as the reason says
	}
	t.loads = nil
	for _, model := range t.tuned() {
		s := tuneLoad{name: model.name}
		s.shape, err = perf.Describe(ctx, t.client, s.name, "", t.composing)
		switch {
		case err != nil:
			return err
		case s.shape.Decoupled:
			return errDecoupled(s.name)
		case t.batch > max(1, s.shape.MaxBatchSize):
			return fmt.Errorf("-b %d is more than the max_batch_size of model %q, %d", t.batch, s.name, s.shape.MaxBatchSize)
		}
		if s.data, err = t.load(&s.shape); err != nil {
			return fmt.Errorf("model %q: %w", s.name, err)
		}
		t.loads = append(t.loads, s)
	}
	t.makeSpace(l, m)
	t.variant = t.space.Variant(t.space.Start())
	return nil
}

func errDecoupled(model string) error {
	return fmt.Errorf("model %q is decoupled: a request may have many answers, whose throughput nereid tune does not compare; measure it with nereid perf -i grpc --streaming", model)
}

// makeSpace makes the search's axes of the completed configurations, which are known.
func (t *tuner) makeSpace(l *tuneLists, m tuneMachine) {
	own := *l
	if own.batches == nil { // none that cannot take a request
		own.batches = slices.DeleteFunc(doubling(1, 128), func(n int) bool { return n < t.batch })
	}
	t.gpus = m.gpus
	t.space = tune.Space{}
	for _, model := range t.tuned() {
		t.space.Axes = append(t.space.Axes, tuneAxes(t.present[model.name], &own, m, true)...)
	}
	if t.tuneParts {
		for _, p := range t.parts {
			t.space.Axes = append(t.space.Axes, tuneAxes(t.present[p.name], &own, m, false)...)
		}
	}
	first := l.load[0]
	for _, v := range l.load { // the one nearest to 8, where a search begins
		if v <= 8 || l.rate && v <= l.load[len(l.load)/2] {
			first = v
		}
	}
	t.space.Axes = append(t.space.Axes, tune.NewAxis("", tune.Load, l.load, first))
}

// measure implements tune.Options.Measure.
func (t *tuner) measure(ctx context.Context, c tune.Candidate) (tune.Measurement, error) {
	if t.point != nil {
		t.point(c, nil)
	}
	for _, changed := range t.space.Changes(c) {
		if changed.Field == tune.MaxBatch && changed.To < t.batch {
			return tune.Measurement{Failed: fmt.Sprintf("requests have %d rows", t.batch)}, nil
		}
	}
	if failed, err := t.serve(ctx, c); err != nil || failed != "" {
		return tune.Measurement{Failed: failed}, err
	}
	usage := newConsumption(t.server.cmd.Process.Pid)
	points, err := t.level(ctx, c, usage)
	usage.look()
	switch {
	case ctx.Err() != nil:
		return tune.Measurement{}, ctx.Err() // a level that was cut short says nothing
	case err != nil:
		return t.failure(err)
	}
	var list []tune.Measurement
	for i, p := range points {
		if p == nil || p.Requests == 0 {
			return tune.Measurement{Failed: "no request of model " + t.loads[i].name + " was answered in time"}, nil
		}
		p.Metrics = points[0].Metrics // the machine's
		list = append(list, measured(p, usage))
	}
	return tune.Together(list), nil
}

// level measures a load, of each model at the same time. A model whose windows agree stays under load until those of the
// others do.
func (t *tuner) level(ctx context.Context, c tune.Candidate, usage *consumption) ([]*perf.Point, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	points, errs := make([]*perf.Point, len(t.loads)), make([]error, len(t.loads))
	var wg sync.WaitGroup
	var left atomic.Int32
	left.Store(int32(len(t.loads)))
	for i := range t.loads {
		wg.Go(func() {
			points[i], errs[i] = t.send(ctx, i, c, usage)
			if left.Add(-1) == 0 || errs[i] != nil {
				cancel() // the others' figures are there, or of no use
			}
			for ctx.Err() == nil {
				if _, err := t.send(ctx, i, c, usage); err != nil {
					return // at the end of ctx; what fails in earnest fails in the figures of the next level
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return points, errors.Join(errs...)
}

// send measures a load of one model. usage is looked at by the first one's alone.
func (t *tuner) send(ctx context.Context, i int, c tune.Candidate, usage *consumption) (*perf.Point, error) {
	h, err := t.server.client() // connections of its own: each load begins anew
	if err != nil {
		return nil, err
	}
	load := float64(t.space.LoadOf(c))
	level := &perf.Range{Start: load, End: load, Step: 1}
	o := perf.Options{
		Target: perf.NewUnary(h), Server: t.client, Model: t.loads[i].shape, Data: t.loads[i].data, Batch: t.batch, Window: t.window, MaxTrials: t.trials, Seed: 1,
	}
	defer o.Target.Close()
	if t.requests > 0 {
		o.Requests = max(t.requests, int(load))
	}
	if t.rate {
		o.Rate = level
	} else {
		o.Concurrency = level
	}
	if i == 0 {
		o.Gather = t.gather(ctx)
		o.Events.Window = func(_ float64, p *perf.Point) {
			usage.look()
			if t.point != nil && len(t.loads) == 1 {
				t.point(c, p)
			}
		}
	}
	result, err := perf.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(result.Points) > 0 {
		return &result.Points[len(result.Points)-1], nil
	}
	return result.Beyond, nil
}

// serve has a server of a candidate's configuration. failed is why there is none.
func (t *tuner) serve(ctx context.Context, c tune.Candidate) (failed string, err error) {
	if v := t.space.Variant(c); v != t.variant || t.server == nil && t.failed == "" {
		t.variant = ""
		if failed, err = t.start(ctx, t.space.Changes(c)); err != nil {
			return "", err
		}
		if t.variant, t.failed = v, failed; failed != "" {
			t.stop()
		}
	}
	return t.failed, nil
}

// failure is the measurement of a run that failed by its configuration or load, else the error.
func (t *tuner) failure(err error) (tune.Measurement, error) {
	select {
	case <-t.server.ended:
		t.failed = "the server ended: " + t.server.reason()
		t.stop()
		return tune.Measurement{Failed: t.failed}, nil
	default:
	}
	var answer *client.Error
	if errors.As(err, &answer) {
		return tune.Measurement{Failed: err.Error()}, nil
	}
	return tune.Measurement{}, err
}

// gather reads the metrics of GPUs, nil where there are none.
func (t *tuner) gather(ctx context.Context) func() (perf.Metrics, error) {
	if t.gpus == 0 {
		return nil
	}
	h := &http.Client{Transport: tokenTransport{t.server.token}}
	return perf.Scrape(ctx, h, "http://"+t.server.metrics+"/metrics")
}

// tokenTransport sends a token along.
type tokenTransport struct{ token string }

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return http.DefaultTransport.RoundTrip(r)
}

// measured is the figures of a point.
func measured(p *perf.Point, u *consumption) tune.Measurement {
	m := tune.Measurement{
		Throughput: p.Throughput(), Avg: p.Latency.Mean(), P50: p.Latency.Quantile(.5), P90: p.Latency.Quantile(.9),
		P95: p.Latency.Quantile(.95), P99: p.Latency.Quantile(.99), Requests: p.Requests, Stable: p.Stable,
		CPU: u.cores(), Memory: u.memory, AvailableMemory: u.left,
	}
	if s := p.Server; s != nil {
		m.Queue, m.Compute = s.Queue.Mean(), s.Compute().Mean()
	}
	gpuFigures(&m, p.Metrics)
	return m
}

// gpuFigures adds what the GPUs showed; g may be nil.
func gpuFigures(m *tune.Measurement, g *perf.Metrics) {
	if g == nil {
		return
	}
	for gpu, r := range g.UsedMemory {
		m.GPUMemory += int64(r.Max)
		m.GPUFree += int64(g.TotalMemory[gpu].First - r.Max)
	}
	for _, r := range g.Utilization {
		m.GPUUtilization += 100 * r.Mean() / float64(len(g.Utilization))
	}
	for _, r := range g.Power {
		m.GPUPower += r.Mean()
	}
}

// alone measures a private server without models for the time of a window: what of the figures of models is the server's own.
func (t *tuner) alone(ctx context.Context) (*tune.Measurement, error) {
	root := filepath.Join(t.scratch, "none")
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil, err
	}
	var err error
	if t.server, err = startPrivate(ctx, root, t.dataDir(), nil, t.options); err != nil {
		return nil, err
	}
	defer t.stop()
	if t.client, err = t.server.client(); err != nil {
		return nil, err
	}
	usage := newConsumption(t.server.cmd.Process.Pid)
	if !clock.Sleep(ctx, t.window) {
		return nil, ctx.Err()
	}
	usage.look()
	m := &tune.Measurement{CPU: usage.cores(), Memory: usage.memory, AvailableMemory: usage.left}
	if gather := t.gather(ctx); gather != nil {
		g, err := gather()
		if err != nil {
			return nil, err
		}
		gpuFigures(m, &g)
	}
	return m, nil
}
