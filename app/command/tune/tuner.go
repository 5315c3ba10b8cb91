package tunecmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"nereid/app/perf"
	"nereid/app/tune"
	"nereid/engine/client"
	"nereid/engine/clock"
	"nereid/engine/inferencepb"
)

// tuner measures candidates of models' configurations in private servers.
type tuner struct {
	tuned          []modelFolder // the models to tune; all are measured at the same time
	composing      []modelFolder // the models that the tuned ones call
	measureOptions *measureOptions
	inputs         func(m *perf.Model) (*perf.Data, error)
	rate           bool // the load is requests per second
	tuneComposing  bool
	gpus           int

	serverOptions []string
	python        string // the folder of Python environments, shared with other servers; "": the private servers' own
	pythonFolder  func(dataDir string) string
	scratch       string
	repositories  int // made so far

	space   tune.Space
	present map[string]*inferencepb.ModelConfig // the present configurations, completed; by model name
	loads   []modelLoad
	server  *privateServer
	variant string // the variant of tune.Space that was started last; "": unknown
	failed  string // why the server does not serve it; "": it does

	// point is called with a nil p when the measurement of a candidate begins. If one model is tuned, it is also called
	// for each window. The function may be nil.
	point func(c tune.Candidate, p *perf.Point)
}

// modelLoad is what is sent to a model that is measured.
type modelLoad struct {
	model perf.Model
	data  *perf.Data
}

// models are all models of the private servers.
func (t *tuner) models() []modelFolder { return slices.Concat(t.tuned, t.composing) }

// open makes the folder of the private servers.
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

// dataDir is the data folder of the private servers.
func (t *tuner) dataDir() string { return filepath.Join(t.scratch, "data") }

// close stops the server and removes the folder.
func (t *tuner) close() error {
	t.stop()
	return os.RemoveAll(t.scratch)
}

func (t *tuner) stop() {
	if t.server != nil {
		t.server.close()
		t.server = nil
	}
}

// newRepository makes an empty repository for a private server.
func (t *tuner) newRepository() (root string, err error) {
	t.repositories++
	root = filepath.Join(t.scratch, "repository-"+strconv.Itoa(t.repositories))
	return root, os.Mkdir(root, 0o755)
}

// start stops the current server and starts another one with the present configurations and changes to them. failed is
// why the models do not load; "": they do.
func (t *tuner) start(ctx context.Context, changes []tune.Change) (failed string, err error) {
	t.stop()
	root, err := t.newRepository()
	if err != nil {
		return "", err
	}
	var names []string
	for _, m := range t.models() {
		text, err := configText(m.config, t.present[m.name], changesOf(changes, m.name))
		if err != nil {
			return "", fmt.Errorf("model %q: %w", m.name, err)
		}
		if err := m.link(root, text); err != nil {
			return "", err
		}
		names = append(names, m.name)
	}
	slices.Reverse(names) // composing models first
	if t.server, err = startPrivate(ctx, root, t.dataDir(), names, t.serverOptions); err != nil {
		return "", err
	}
	for _, name := range names {
		if failed, err = t.server.failure(ctx, name); err != nil || failed != "" {
			return failed, err
		}
		cfg, err := t.server.client.ModelConfig(ctx, name, "")
		if err != nil {
			return "", err
		}
		if failed = mismatch(cfg, changesOf(changes, name)); failed != "" {
			return failed, nil
		}
		if len(changes) == 0 {
			t.present[name] = cfg
		}
	}
	return "", nil
}

// changesOf returns the changes of one model.
func changesOf(changes []tune.Change, model string) (out []tune.Change) {
	for _, c := range changes {
		if c.Model == model {
			out = append(out, c)
		}
	}
	return out
}

// learn starts a server with the present configurations. From its answers it makes the loads and the axes of the
// search.
func (t *tuner) learn(ctx context.Context, l *lists, m machine) error {
	failed, err := t.start(ctx, nil)
	if err != nil {
		return err
	}
	if failed != "" { // the reason names the model if it is another one
		return fmt.Errorf("model %q cannot be loaded as it is: %s", t.tuned[0].name, failed)
	}
	var composing []perf.ModelVersion
	for _, name := range t.measureOptions.composing {
		composing = append(composing, perf.ModelVersion{Name: name})
	}
	t.loads = nil
	for _, model := range t.tuned {
		var l modelLoad
		l.model, err = perf.Describe(ctx, t.server.client, model.name, "", composing)
		switch {
		case err != nil:
			return err
		case l.model.Decoupled:
			return errDecoupled(model.name)
		case t.measureOptions.batch > max(1, l.model.MaxBatchSize):
			return fmt.Errorf("-b %d is more than the max_batch_size of model %q, %d",
				t.measureOptions.batch, model.name, l.model.MaxBatchSize)
		}
		if l.data, err = t.inputs(&l.model); err != nil {
			return fmt.Errorf("model %q: %w", model.name, err)
		}
		t.loads = append(t.loads, l)
	}
	t.makeSpace(l, m)
	t.variant = t.space.Variant(t.space.Start())
	return nil
}

func errDecoupled(model string) error {
	return fmt.Errorf("model %q is decoupled: a request may have many responses, whose throughput nereid tune does "+
		"not compare; measure it with nereid perf -i grpc --streaming", model)
}

// makeSpace makes the search's axes of the completed configurations, which must be known.
func (t *tuner) makeSpace(l *lists, m machine) {
	t.gpus = m.gpus
	t.space = tune.Space{}
	for _, model := range t.tuned {
		values := *l
		if values.batches == nil { // without sizes that cannot take a request, or that the model cannot have
			values.batches = l.defaultBatches(t.measureOptions.batch, t.mostRows(model.name))
		}
		t.space.Axes = append(t.space.Axes, axes(t.present[model.name], &values, m, true)...)
	}
	if t.tuneComposing {
		for _, model := range t.composing {
			t.space.Axes = append(t.space.Axes, axes(t.present[model.name], l, m, false)...)
		}
	}
	first := l.load[0] // a search begins at the largest load up to 8, or up to the middle one of the list of rates
	for _, v := range l.load {
		if v <= 8 || l.rate && v <= l.load[len(l.load)/2] {
			first = v
		}
	}
	t.space.Axes = append(t.space.Axes, tune.NewAxis("", tune.Load, l.load, first))
}

// mostRows is the largest max_batch_size that a model can have: that of an ensemble is at most that of each step whose
// configuration stays.
func (t *tuner) mostRows(model string) int {
	most := math.MaxInt
	for _, s := range t.present[model].GetEnsembleScheduling().GetStep() {
		name := s.GetModelName()
		if !slices.ContainsFunc(t.tuned, func(m modelFolder) bool { return m.name == name }) {
			most = min(most, int(t.present[name].GetMaxBatchSize()))
		}
	}
	return most
}

// measure implements tune.Options.Measure.
func (t *tuner) measure(ctx context.Context, c tune.Candidate) (tune.Measurement, error) {
	if t.point != nil {
		t.point(c, nil)
	}
	for _, changed := range t.space.Changes(c) {
		if changed.Field == tune.MaxBatch && changed.To < t.measureOptions.batch {
			return tune.Measurement{Failed: fmt.Sprintf("requests have %d rows", t.measureOptions.batch)}, nil
		}
	}
	if failed, err := t.serve(ctx, c); err != nil || failed != "" {
		return tune.Measurement{Failed: failed}, err
	}
	usage := newConsumption(t.server.cmd.Process.Pid)
	points, err := t.measureAll(ctx, c, usage)
	usage.sample()
	switch {
	case ctx.Err() != nil:
		return tune.Measurement{}, ctx.Err() // an interrupted level says nothing
	case err != nil:
		return t.failure(err)
	}
	var list []tune.Measurement
	for i, p := range points {
		if p == nil || p.Requests == 0 {
			return tune.Measurement{Failed: "no request of model " + t.loads[i].model.Name + " was answered in time"},
				nil
		}
		p.Metrics = points[0].Metrics // they belong to the machine, not to a model
		list = append(list, measurementOf(p, usage))
	}
	return tune.Together(list), nil
}

// measureAll measures all models at the same time. A model whose windows agree stays under load until the windows of
// the others agree too.
func (t *tuner) measureAll(ctx context.Context, c tune.Candidate, usage *consumption) ([]*perf.Point, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	points, errs := make([]*perf.Point, len(t.loads)), make([]error, len(t.loads))
	var wg sync.WaitGroup
	var left atomic.Int32
	left.Store(int32(len(t.loads)))
	for i := range t.loads {
		wg.Go(func() {
			points[i], errs[i] = t.measureModel(ctx, i, c, usage)
			if left.Add(-1) == 0 || errs[i] != nil {
				cancel() // all figures are there, or they are of no use
			}
			for ctx.Err() == nil {
				if _, err := t.measureModel(ctx, i, c, usage); err != nil {
					return // usually the end of ctx; a real failure shows at the next level
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

// measureModel measures model i once. Only the first model samples the consumption.
func (t *tuner) measureModel(ctx context.Context, i int, c tune.Candidate, usage *consumption) (*perf.Point, error) {
	h, err := t.server.newClient() // with new connections for each load
	if err != nil {
		return nil, err
	}
	m := t.measureOptions
	load := float64(t.space.LoadOf(c))
	level := &perf.Range{Start: load, End: load, Step: 1}
	o := perf.Options{
		Target: perf.NewUnary(h), Server: t.server.client, Model: t.loads[i].model, Data: t.loads[i].data, Seed: 1,
		RequestOptions: perf.RequestOptions{Batch: m.batch},
		WindowOptions:  perf.WindowOptions{Window: m.window, MaxTrials: m.trials},
	}
	defer o.Target.Close()
	if m.requests > 0 {
		o.Requests = max(m.requests, int(load))
	}
	if t.rate {
		o.Rate = level
	} else {
		o.Concurrency = level
	}
	if i == 0 {
		o.Gather = t.gatherMetrics(ctx)
		o.Events.Window = func(_ float64, p *perf.Point) {
			usage.sample()
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

// serve makes the server serve a candidate's configuration. failed is why it cannot.
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

// failure turns the error of a run into a measurement if the configuration or the load caused it.
func (t *tuner) failure(err error) (tune.Measurement, error) {
	select {
	case <-t.server.exited:
		t.failed = "the server exited: " + t.server.lastLine()
		t.stop()
		return tune.Measurement{Failed: t.failed}, nil
	default:
	}
	var response *client.Error
	if errors.As(err, &response) {
		return tune.Measurement{Failed: err.Error()}, nil
	}
	return tune.Measurement{}, err
}

// gatherMetrics returns a function that reads the metrics of the GPUs; nil without GPUs.
func (t *tuner) gatherMetrics(ctx context.Context) func() (perf.Metrics, error) {
	if t.gpus == 0 {
		return nil
	}
	h := &http.Client{Transport: tokenTransport{t.server.token}}
	return perf.Scrape(ctx, h, "http://"+t.server.metrics+"/metrics")
}

// tokenTransport sends a token with every request.
type tokenTransport struct{ token string }

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return http.DefaultTransport.RoundTrip(r)
}

// measurementOf returns the figures of a point, together with the consumption of the server.
func measurementOf(p *perf.Point, u *consumption) tune.Measurement {
	m := u.measurement()
	m.Throughput, m.Requests, m.Stable = p.Throughput(), p.Requests, p.Stable
	m.Avg, m.P50, m.P90 = p.Latency.Mean(), p.Latency.Quantile(.5), p.Latency.Quantile(.9)
	m.P95, m.P99 = p.Latency.Quantile(.95), p.Latency.Quantile(.99)
	if s := p.Server; s != nil {
		m.Queue, m.Compute = s.Queue.Mean(), s.Compute().Mean()
	}
	if p.Metrics != nil {
		addGPUs(&m, p.Metrics)
	}
	return m
}

// addGPUs adds the figures of all GPUs: sums of memory and power, and the mean of the utilization in percent.
func addGPUs(m *tune.Measurement, g perf.Metrics) {
	for gpu, r := range g[perf.GPUUsedMemory] {
		m.GPUMemory += int64(r.Max)
		m.GPUFree += int64(g[perf.GPUTotalMemory][gpu].First - r.Max)
	}
	for _, r := range g[perf.GPUUtilization] {
		m.GPUUtilization += 100 * r.Mean() / float64(len(g[perf.GPUUtilization]))
	}
	for _, r := range g[perf.GPUPower] {
		m.GPUPower += r.Mean()
	}
}

// measureServerOnly measures a private server without models for the time of a window.
func (t *tuner) measureServerOnly(ctx context.Context) (*tune.Measurement, error) {
	root, err := t.newRepository()
	if err != nil {
		return nil, err
	}
	if t.server, err = startPrivate(ctx, root, t.dataDir(), nil, t.serverOptions); err != nil {
		return nil, err
	}
	defer t.stop()
	usage := newConsumption(t.server.cmd.Process.Pid)
	if !clock.Sleep(ctx, t.measureOptions.window) {
		return nil, ctx.Err()
	}
	usage.sample()
	m := usage.measurement()
	if gather := t.gatherMetrics(ctx); gather != nil {
		g, err := gather()
		if err != nil {
			return nil, err
		}
		addGPUs(&m, g)
	}
	return &m, nil
}
