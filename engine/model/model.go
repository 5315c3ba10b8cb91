package model

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/ensemble"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/instance"
	"nereid/engine/sched"
	"nereid/engine/shadow"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// Spec describes the version to load, and what it uses.
type Spec struct {
	Name    string
	Version int64
	// Config is normalised, complete and valid. It is not changed.
	Config        *inferencepb.ModelConfig
	ModelFolder   string
	VersionFolder string
	Backend       backend.Backend
	Host          backend.Host
	// Models returns the configurations of the models of an ensemble's steps. Others do not need it.
	Models ensemble.Lookup
	// Hold is ensemble.Options.Hold.
	Hold ensemble.Holder
	// Labels returns the class labels of an output of the model of a step, nil if it has none.
	Labels  func(model string, version int64, output string) []string
	Stats   *stats.Version
	Cache   cache.Store       // nil: the server has none
	Cores   *device.Cores     // nil: CPU instances do not compete for cores
	Limiter *instance.Limiter // nil: the server limits nothing
	Slices  *instance.Slices  // nil: the model's own
	Machine *device.Machine   // nil: there are no GPUs
	// HostPolicies say by name which cores and memory instances use (--host-policy).
	HostPolicies map[string]affinity.Policy
	// GPULimits are the shares of GPUs' memory above which nothing is loaded onto them.
	GPULimits map[int]float64
	// Process is backend.Spec.Process.
	Process func(backend.ProcessEvent)
	Log     *slog.Logger
	// Strategy starts the batching strategy of a model; see lifecycle.Libraries. nil: there are none.
	Strategy func(backend.Spec) (sched.Strategy, error)
	// NoteUse: the time of each request is noted for Model.LastUse.
	NoteUse bool
	// Started is called before the model gets a request that starts a sequence. nil: nobody needs to know.
	Started func(m *Model, r *infer.Request)
	// KeepGolden: the first golden request is kept for Model.Probe.
	KeepGolden bool
}

// Model serves one version of a model. Its methods are safe for concurrent use.
type Model struct {
	Stub
	gate
	signature signature
	stats     *stats.Version
	counts    atomic.Bool // what the backend reports
	log       *slog.Logger
	scheduler sched.Scheduler
	// stepLabels is Spec.Labels.
	stepLabels func(model string, version int64, output string) []string
	sequences  *sched.Sequences // the scheduler, if that is what it is
	started    func(*Model, *infer.Request)
	strategy   sched.Strategy // nil: there is none
	loaded     backend.Model  // nil for an ensemble, as is set
	set        *instance.Set
	inline     inlining
	cache      *responseCache
	devices    backend.DeviceMemoryUser // nil: tensors are in the host's memory
	hosts      tensor.Pool              // memory for inputs on GPUs that are needed on the host
	gpus       gpuUse
	policies   map[string]affinity.Policy
	defCount   int // instances on the CPU if no group says how many
	loadTime   time.Duration
	golden     int     // golden requests that the version has passed at load
	probe      *golden // nil: none was kept
	fileBytes  int64   // of the version folder
	noteUse    bool
	lastUse    atomic.Int64 // an infer.Stamp
	shadow     atomic.Pointer[shadow.Shadow]

	mu      sync.Mutex
	cfg     *inferencepb.ModelConfig // guarded by mu, as is resized; replaced by Resize
	resized time.Time
}

var (
	_ infer.Served         = (*Model)(nil)
	_ infer.StreamObserver = (*Model)(nil)
	_ infer.Held           = (*Model)(nil)
)

// Load loads the files, makes the instances, warms them and sends the golden requests to the first. The model takes
// requests from then on. Errors: the backend's, InvalidArg for invalid instance groups and warmup samples.
func Load(ctx context.Context, s Spec) (*Model, error) {
	start := time.Now()
	if err := checkTraits(s); err != nil {
		return nil, err
	}
	stub, err := NewStub(s.Name, s.Version, s.Config, s.ModelFolder)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Stub: *stub, gate: gate{drained: make(chan struct{})}, signature: newSignature(s.Config), stats: s.Stats,
		log: s.Log,
		cfg: s.Config, defCount: 1, noteUse: s.NoteUse, policies: s.HostPolicies,
		gpus: gpuUse{machine: s.Machine, limits: s.GPULimits}, stepLabels: s.Labels, started: s.Started,
	}
	m.signature.scalars = s.Backend != nil && s.Backend.Traits().Scalars
	if m.cache, err = newResponseCache(ctx, s); err != nil {
		return nil, err
	}
	direct := s.Config.GetEnsembleScheduling() != nil
	if direct {
		err = m.startEnsemble(ctx, s)
	} else {
		err = m.start(ctx, s)
	}
	if err != nil {
		return nil, err // what served before keeps its labels and the rest
	}
	s.Stats.SetTags(metricTags(s.Config))
	s.Stats.SetKind(kindOf(s.Config, m.cache != nil, s.Log))
	s.Stats.SetDirect(direct)
	m.loadTime = time.Since(start)
	s.Stats.SetLoadTime(m.loadTime)
	return m, nil
}

// checkTraits refuses a configuration that needs what the backend does not do.
func checkTraits(s Spec) error {
	var traits backend.Traits
	if s.Backend != nil { // an ensemble has none
		traits = s.Backend.Traits()
	}
	if traits.IgnoresExtras {
		return nil
	}
	if !traits.BatchIO && len(s.Config.GetBatchInput())+len(s.Config.GetBatchOutput()) > 0 {
		return status.Errorf(status.Unsupported,
			"backend '%s' does not support batch_input and batch_output; remove them if model '%s' can do without",
			s.Backend.Name(), s.Name)
	}
	if !traits.ImplicitState && len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return status.Errorf(status.Unsupported,
			"backend '%s' does not set implicit states; remove sequence_batching.state, and let model '%s' keep its "+
				"state itself",
			s.Backend.Name(), s.Name)
	}
	return nil
}

// Labels returns the class labels of an output, nil if it has none. An ensemble without labels has those of its steps.
func (m *Model) Labels(output string) []string {
	own := m.Stub.Labels(output)
	if g, ok := m.scheduler.(*ensemble.Graph); ok && own == nil && m.stepLabels != nil {
		if model, version, port, ok := g.Source(output); ok {
			return m.stepLabels(model, version, port)
		}
	}
	return own
}

// startEnsemble makes the graph of an ensemble and sends the golden requests to it.
func (m *Model) startEnsemble(ctx context.Context, s Spec) (err error) {
	m.scheduler, err = ensemble.New(ensemble.Options{Config: s.Config, Host: s.Host, Models: s.Models, Hold: s.Hold,
		Stats: s.Stats})
	if err != nil {
		return err
	}
	if err := m.testEnsemble(ctx, s); err != nil {
		m.scheduler.Close()
		return err
	}
	m.stats.SetReports(false, false)
	return nil
}

// start loads the files and makes the instances, warmed and tested.
func (m *Model) start(ctx context.Context, s Spec) (err error) {
	m.defCount = max(1, s.Backend.Traits().DefaultInstanceCount)
	places, err := m.placements(s.Config)
	if err != nil {
		return err
	}
	if err := m.gpus.checkRoom(m.name, places); err != nil {
		return err
	}
	tests, err := readTests(s)
	if err != nil {
		return err
	}
	cfg, err := FileForDevices(s.Config, s.Machine, backend.NormalizeOptions(s.Backend, s.Machine.IDs()))
	if err != nil {
		return err
	}
	end := m.gpus.watch(places)
	defer func() { end(err == nil) }()
	spec := backend.Spec{
		ModelName: s.Name, Version: s.Version, Config: cfg, ModelFolder: s.ModelFolder,
		VersionFolder: s.VersionFolder, Host: s.Host, Process: s.Process,
		Reported: m.reported, Log: s.Log,
	}
	if m.loaded, err = s.Backend.Load(ctx, spec); err != nil {
		return err
	}
	if s.Strategy != nil {
		m.strategy, err = s.Strategy(spec)
	}
	if err == nil {
		err = m.startInstances(ctx, s, places, tests)
	}
	if err != nil {
		if cerr := m.closeLoaded(); cerr != nil {
			s.Log.Error("closing a model that failed to start", "model", s.Name, "version", s.Version, "err", cerr)
		}
		return err
	}
	m.keepGolden(s, tests.golden)
	m.fileBytes = folderBytes(s.VersionFolder)
	m.devices = takesDevices(s.Config, m.loaded, m.cache != nil)
	if m.strategy == nil { // else it is asked about each request
		m.inline.policy = inlinePolicyOf(s.Config, m.loaded, s.Limiter != nil)
	}
	t := m.loaded.Traits()
	m.inline.waits = t.WaitsInline
	m.stats.SetReports(t.ReportsExecutions, t.ReportsResponses)
	m.counts.Store(true)
	return nil
}

// reported counts what the backend reports, except for the executions before the version takes requests.
func (m *Model) reported(p infer.Report) {
	if m.counts.Load() {
		m.stats.Reported(p)
	}
}

// tests are what is executed before a version takes requests.
type tests struct {
	warmup []sample
	golden []golden
}

func readTests(s Spec) (t tests, err error) {
	if t.warmup, err = warmupSamples(s.ModelFolder, s.Config); err != nil {
		return t, err
	}
	t.golden, err = readGolden(s.ModelFolder, s.VersionFolder, s.Config)
	return t, err
}

// startInstances makes the scheduler and the instances. On an error nothing of them is left.
func (m *Model) startInstances(ctx context.Context, s Spec, places []backend.Placement, t tests) error {
	var coresBusy func() bool
	if sharesCores(m.loaded, places) && s.Cores != nil {
		coresBusy = s.Cores.Busy
	}
	batcher, err := m.newBatcher(s, coresBusy)
	if err != nil {
		return err
	}
	m.scheduler = batcher
	if d, ok := batcher.(*sched.Dynamic); ok && m.cache != nil {
		m.cache.order = d.Order()
	}
	var tested atomic.Bool
	m.set, err = instance.Start(ctx, instance.Options{
		Model: m.loaded, Batcher: batcher, Stats: s.Stats, Log: s.Log, Decoupled: m.decoupled, Placements: places,
		Limiter: s.Limiter, Slices: s.Slices, Parallel: instancesAtOnce(s.Backend),
		Warmup: func(ctx context.Context, name string, inst backend.Instance) error {
			if err := warm(ctx, m, t.warmup, name, inst); err != nil {
				return err
			}
			if !tested.CompareAndSwap(false, true) {
				return nil // one instance is enough
			}
			return runGolden(ctx, m, t.golden, inst)
		},
	})
	return err
}

// Config returns the configuration that is served. The caller must not change it.
func (m *Model) Config() *inferencepb.ModelConfig {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg
}

// Instances returns the number of instances; 0 for an ensemble.
func (m *Model) Instances() int {
	if m.set == nil {
		return 0
	}
	return m.set.Count()
}

// LoadTime returns how long Load took.
func (m *Model) LoadTime() time.Duration { return m.loadTime }

// Healthy returns nil if the backend says that the version can take requests now, or else why not.
func (m *Model) Healthy() error {
	if h, ok := m.loaded.(backend.Health); ok {
		return h.Healthy()
	}
	return nil
}

// Processes describes the processes of the instances; nil for a model that runs in the server's process.
func (m *Model) Processes() []backend.Process { return processes(m.loaded) }

func processes(loaded backend.Model) []backend.Process {
	if r, ok := loaded.(backend.ProcessReporter); ok {
		return r.Processes()
	}
	return nil
}

// Ready is Healthy, and also asks the model if it decides that itself. It may take until ctx ends.
func (m *Model) Ready(ctx context.Context) error {
	if err := m.Healthy(); err != nil {
		return err
	}
	if r, ok := m.loaded.(backend.Readiness); ok {
		return r.Ready(ctx)
	}
	return nil
}

// Placements returns where the instances run, in order; nil for an ensemble.
func (m *Model) Placements() []backend.Placement {
	if m.set == nil {
		return nil
	}
	return m.set.Placements()
}

// Golden returns how many golden requests the version has passed at load.
func (m *Model) Golden() int { return m.golden }

// Infer checks r and queues it, or executes it at once on this goroutine (see inline.go). The caller has called
// Acquire. On an error there is no response.
func (m *Model) Infer(r *infer.Request) error {
	if r.Times.Arrived == 0 {
		r.Times.Arrived = infer.Now()
	}
	err := error(nil)
	if r.Raw {
		err = r.CompleteRaw(m.Config())
	}
	if err == nil {
		err = m.signature.check(r)
	}
	if err != nil {
		m.leave()
		return err
	}
	if m.devices != nil || r.OnDevice {
		if err := m.placeTensors(r); err != nil {
			m.leave()
			return err
		}
	}
	if r.Origin != nil && m.set != nil && r.Origin.Holds(m.name) >= m.set.Working() {
		m.leave()
		return status.Errorf(status.InvalidArg,
			"model '%s' is called by requests that hold all of its %d instances: the call would wait for itself; "+
				"raise instance_group.count or call another model", m.name, m.set.Working())
	}
	if r.Served == nil { // otherwise it waited for the model to be loaded, and its caller may read Served now
		r.Served = m
	}
	if m.noteUse {
		m.lastUse.Store(int64(infer.Now()))
	}
	r.Observe(m)
	if r.Trace != nil {
		r.Trace.Admitted(r)
	}
	if m.cache != nil && m.cache.answer(r) {
		return nil
	}
	m.stats.Admitted()
	if m.sequences != nil && m.started != nil && r.Flags&infer.SequenceStart != 0 && m.sequences.Check(r) == nil {
		m.started(m, r)
	}
	if m.inline.wanted(m, r) && m.set.Inline(r) {
		return nil
	}
	if err := m.scheduler.Enqueue(r); err != nil {
		if r.Trace != nil {
			r.Trace.Responded(r, &infer.Response{Err: err, Final: true})
		}
		r.Observe(nil) // the caller may answer it itself
		m.stats.Left(1)
		m.stats.Refused(r, stats.ReasonOf(err, false))
		m.leave()
		return err
	}
	return nil
}

// Finished counts a request at its final response; see infer.Observer.
func (m *Model) Finished(r *infer.Request, resp *infer.Response) {
	executed := r.Batch != nil
	if !executed && !r.Cache.Hit {
		m.stats.Left(1)
	}
	if m.cache != nil {
		m.cache.finished(r, resp)
	}
	m.signature.reshapeOutputs(r, resp)
	if s := m.shadow.Load(); s != nil {
		s.Offer(r, resp)
	}
	reason := stats.Other
	if resp.Err != nil {
		reason = stats.ReasonOf(resp.Err, executed)
	}
	if reason == stats.Rejected && m.Config().GetEnsembleScheduling() != nil {
		reason = stats.Other // a step's model rejected it, and counts that
	}
	if m.decoupled && (executed || m.set == nil) { // an ensemble that failed has no batch
		m.stats.Responded(r, resp)
	}
	m.stats.Finished(r, resp, reason)
	m.leave()
}

// SetShadow lets s get copies of the requests from now on; nil: nobody gets any.
func (m *Model) SetShadow(s *shadow.Shadow) { m.shadow.Store(s) }

// Streamed counts a response of a decoupled model before the final one; see infer.StreamObserver.
func (m *Model) Streamed(r *infer.Request, resp *infer.Response) {
	m.signature.reshapeOutputs(r, resp)
	m.stats.Responded(r, resp)
}

// Resize applies a configuration that differs only in its instance groups, while the model serves.
func (m *Model) Resize(ctx context.Context, cfg *inferencepb.ModelConfig) error {
	places, err := m.placements(cfg)
	if err != nil {
		return err
	}
	end := m.gpus.watch(places)
	err = m.set.Resize(ctx, places)
	end(err == nil)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg, m.resized = cfg, time.Now()
	return nil
}

// Resized returns when Resize last succeeded; zero: it never did.
func (m *Model) Resized() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resized
}

// placements lists the instances that a configuration asks for. If a group names a host policy that the server does not
// have, it logs that; the model runs without one, as in Triton.
func (m *Model) placements(cfg *inferencepb.ModelConfig) ([]backend.Placement, error) {
	for _, g := range cfg.GetInstanceGroup() {
		name := g.GetHostPolicy()
		if _, ok := m.policies[name]; name != "" && !ok {
			m.log.Warn("an instance group's host policy is not one of the server's; its instances may use all cores",
				"model", m.name, "host_policy", name,
				"known", slices.Sorted(maps.Keys(m.policies)), "mend", "--host-policy="+name+",cpu-cores=<cores>")
		}
	}
	return instance.Placements(cfg, m.defCount, m.gpus.machine.IDs(), m.policies)
}

// instancesAtOnce returns how many instances of a model a backend makes at once: each may use a core.
func instancesAtOnce(b backend.Backend) int {
	if !b.Traits().ParallelInstances {
		return 1
	}
	return max(4, runtime.NumCPU())
}

// Refit checks an ensemble against the models of its steps after one has changed, and drops its cached responses. Other
// models always fit. Errors: InvalidArg.
func (m *Model) Refit(models ensemble.Lookup) error {
	g, ok := m.scheduler.(*ensemble.Graph)
	if !ok {
		return nil
	}
	if err := g.Refit(models); err != nil || m.cache == nil {
		return err
	}
	if err := cacheable(m.name, m.Config(), models); err != nil {
		return err
	}
	return m.cache.invalidate()
}

// newBatcher returns the scheduler that a configuration asks for.
func (m *Model) newBatcher(s Spec, coresBusy func() bool) (sched.Batcher, error) {
	if s.Config.GetSequenceBatching() == nil {
		return newBatcher(s.Config, coresBusy, m.strategy), nil
	}
	p, err := sequencePolicy(s.ModelFolder, s.Config)
	if !s.Backend.Traits().ImplicitState { // it ignores them
		p.States = nil
	}
	if err != nil {
		return nil, err
	}
	m.sequences = sched.NewSequences(p)
	return m.sequences, nil
}

// HoldSteps implements infer.Held.
func (m *Model) HoldSteps(all, from []infer.Hold) []infer.Hold {
	if g, ok := m.scheduler.(*ensemble.Graph); ok {
		return g.HoldSteps(all, from)
	}
	return all
}

// AcquireHeld implements infer.Held. A request that continues a sequence is not for this version if the version does
// not have the sequence.
func (m *Model) AcquireHeld(r *infer.Request) bool {
	if m.sequences != nil && !r.Correlation.IsZero() && r.Flags&infer.SequenceStart == 0 &&
		!m.sequences.Continues(r.Correlation) {
		return false
	}
	return m.acquireHeld()
}

// Close refuses new requests and waits until those admitted have their final response, and holds have ended, or ctx
// ends. Then it closes the instances and the backend's model. It is called once.
func (m *Model) Close(ctx context.Context) error {
	m.shut()
	if l, ok := m.loaded.(backend.Leaver); ok {
		if limit := l.Leave(); limit > 0 {
			defer time.AfterFunc(limit, m.DropHolds).Stop()
		}
	}
	if m.sequences != nil {
		m.sequences.Finish()
	}
	select {
	case <-m.drained:
	case <-ctx.Done():
		m.DropHolds()
	}
	m.scheduler.Close()
	if m.set != nil {
		m.set.Close(ctx)
	}
	m.cache.close()
	return m.closeLoaded()
}

// closeLoaded closes what start has opened, after the instances.
func (m *Model) closeLoaded() error {
	var errs []error
	if m.strategy != nil {
		errs = append(errs, m.strategy.Close())
	}
	if m.loaded != nil {
		errs = append(errs, m.loaded.Close())
	}
	return errors.Join(errs...)
}

func folderOf(modelFolder, name string) string {
	return filepath.Join(modelFolder, filepath.FromSlash(name))
}
