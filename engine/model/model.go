package model

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// Spec says which version to serve and with what.
type Spec struct {
	Name    string
	Version int64
	// Config is normalised, complete and valid. It must not change any more.
	Config        *inferencepb.ModelConfig
	ModelFolder   string
	VersionFolder string
	Backend       backend.Backend
	Host          backend.Host
	// Models tells an ensemble of the models of its steps. Others do not need it.
	Models  ensemble.Lookup
	Stats   *stats.Version
	Cache   cache.Store       // nil: the server has none
	Cores   *device.Cores     // nil: CPU instances count as independent of each other
	Limiter *instance.Limiter // nil: the server limits nothing
	Slices  *instance.Slices  // nil: the model's own
	Machine *device.Machine   // nil: there are no GPUs
	// HostPolicies say by name which cores and memory instances keep to (--host-policy).
	HostPolicies map[string]affinity.Policy
	// GPULimits are the shares of GPUs' memory over which nothing is loaded onto them.
	GPULimits map[int]float64
	Log       *slog.Logger
	// NoteUse asks to note the time of each request: see Model.LastUse.
	NoteUse bool
}

// Model serves one version of a model.
type Model struct {
	name        string
	version     int64
	versionText string
	decoupled   bool
	signature   signature
	labels      map[string][]string
	stats       *stats.Version
	log         *slog.Logger
	scheduler   sched.Scheduler
	sequences   *sched.Sequences // the scheduler, if that is what it is
	loaded      backend.Model    // nil for an ensemble, as is set
	set         *instance.Set
	inline      inlining
	devices     backend.DeviceMemoryUser // nil: tensors are in the host's memory
	hosts       tensor.Pool              // memory for inputs that come from GPUs all the same
	cache       cache.Store              // nil: nothing is answered from it
	keeps       atomic.Uint64            // the cache.Owner of what is kept; see owner
	defCount    int
	loadTime    time.Duration
	golden      int   // requests that were put at load and answered well
	fileBytes   int64 // of the version folder
	noteUse     bool
	machine     *device.Machine
	gpuLimits   map[int]float64
	policies    map[string]affinity.Policy

	mu    sync.Mutex
	cfg   *inferencepb.ModelConfig // guarded by mu; replaced by Resize
	cards onGPUs                   // guarded by mu

	// inflight counts admitted requests without a final response; the top bit says that no more are admitted.
	inflight atomic.Int64
	lastUse  atomic.Int64  // an infer.Stamp
	drained  chan struct{} // closed once when closing and inflight is 0
	once     sync.Once
	refused  sync.Once // guards the setting of the top bit
}

const closing = int64(1) << 62

var (
	_ infer.Served         = (*Model)(nil)
	_ infer.StreamObserver = (*Model)(nil)
)

// Load loads the files, makes the instances, warms them and puts the golden requests to the first. The model takes requests from then on. Errors: the
// backend's, InvalidArg for instance groups and warmup samples that cannot be.
func Load(ctx context.Context, s Spec) (*Model, error) {
	start := time.Now()
	var traits backend.Traits
	if s.Backend != nil { // an ensemble has none
		traits = s.Backend.Traits()
	}
	if !traits.BatchIO && len(s.Config.GetBatchInput())+len(s.Config.GetBatchOutput()) > 0 {
		return nil, status.Errorf(status.Unsupported, "backend '%s' does not support batch_input and batch_output; remove them if model '%s' can do without",
			s.Backend.Name(), s.Name)
	}
	if !traits.ImplicitState && len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return nil, status.Errorf(status.Unsupported, "backend '%s' does not set implicit states; remove sequence_batching.state, and let model '%s' keep its state itself",
			s.Backend.Name(), s.Name)
	}
	labels, err := readLabels(s.ModelFolder, s.Config)
	if err != nil {
		return nil, err
	}
	m := &Model{
		name: s.Name, version: s.Version, versionText: strconv.FormatInt(s.Version, 10),
		decoupled: s.Config.GetModelTransactionPolicy().GetDecoupled(),
		signature: newSignature(s.Config), labels: labels, stats: s.Stats, log: s.Log, cfg: s.Config,
		defCount: 1, drained: make(chan struct{}), noteUse: s.NoteUse, machine: s.Machine, gpuLimits: s.GPULimits, policies: s.HostPolicies,
	}
	if s.Config.GetEnsembleScheduling() != nil {
		m.scheduler, err = ensemble.New(ensemble.Options{Config: s.Config, Host: s.Host, Models: s.Models, Stats: s.Stats})
		if err != nil {
			return nil, err
		}
		if err := m.askEnsemble(ctx, s); err != nil {
			m.scheduler.Close()
			return nil, err
		}
		if err := m.keepEnsemble(ctx, s); err != nil {
			return nil, err
		}
		m.loadTime = time.Since(start)
		s.Stats.SetLoadTime(m.loadTime)
		return m, nil
	}
	if err := m.start(ctx, s); err != nil {
		return nil, err
	}
	m.fileBytes = folderBytes(s.VersionFolder)
	m.loadTime = time.Since(start)
	s.Stats.SetLoadTime(m.loadTime)
	m.devices = takesDevices(s.Config, m.loaded, m.cache != nil)
	m.inline.policy, m.inline.waits = inlinePolicyOf(s.Config, m.loaded, s.Limiter != nil), m.loaded.Traits().WaitsInline
	return m, nil
}

// keepEnsemble gives an ensemble that asks for it the response cache.
func (m *Model) keepEnsemble(ctx context.Context, s Spec) error {
	if s.Cache != nil && s.Config.GetResponseCache().GetEnable() {
		if err := keepable(s.Name, s.Config, s.Models); err != nil {
			return err
		}
		owner, err := newEnsembleOwner(ctx, s.Cache)
		if err != nil {
			return err
		}
		m.cache = s.Cache
		m.keeps.Store(uint64(owner))
	}
	s.Stats.SetKind(kindOf(s.Config, m.cache != nil, s.Log))
	return nil
}

// start loads the files and makes the instances, warmed.
func (m *Model) start(ctx context.Context, s Spec) error {
	m.defCount = max(1, s.Backend.Traits().DefaultInstanceCount)
	if s.Cache != nil && s.Config.GetResponseCache().GetEnable() {
		owner, err := s.Cache.NewOwner(ctx, func() (string, error) { return identityOf(s) })
		if err != nil {
			return err
		}
		m.cache = s.Cache
		m.keeps.Store(uint64(owner))
	}
	s.Stats.SetKind(kindOf(s.Config, m.cache != nil, s.Log))
	s.Stats.SetTags(metricTags(s.Config))
	places, err := m.placements(s.Config)
	if err != nil {
		return err
	}
	if err := m.roomOnGPUs(places); err != nil {
		return err
	}
	samples, err := warmupSamples(s.ModelFolder, s.Config)
	if err != nil {
		return err
	}
	asked, err := readGolden(s.ModelFolder, s.VersionFolder, s.Config)
	if err != nil {
		return err
	}
	cfg, err := FileForDevices(s.Config, m.machine, backend.NormalizeOptions(s.Backend, m.machine.IDs()))
	if err != nil {
		return err
	}
	m.golden = len(asked)
	watch := m.machine.Watch(gpusOf(places))
	defer func() { m.placed(gpusOf(places), watch.End()) }()
	m.loaded, err = s.Backend.Load(ctx, backend.Spec{
		ModelName: s.Name, Version: s.Version, Config: cfg, ModelFolder: s.ModelFolder,
		VersionFolder: s.VersionFolder, Host: s.Host, Log: s.Log,
	})
	if err != nil {
		return err
	}
	var coresBusy func() bool
	if sharesCores(m.loaded, places) && s.Cores != nil {
		coresBusy = s.Cores.Busy
	}
	batcher, err := m.newBatcher(s, coresBusy)
	if err != nil {
		return errors.Join(err, m.loaded.Close())
	}
	if path := batchStrategy(s); path != "" {
		s.Log.Warn("libraries for batching are not loaded; the model's batches are cut by dynamic_batching alone", "model", s.Name, "library", path)
	}
	m.scheduler = batcher
	var first atomic.Bool // instance to be warm
	m.set, err = instance.Start(ctx, instance.Options{
		Model: m.loaded, Batcher: batcher, Stats: s.Stats, Log: s.Log, Decoupled: m.decoupled, Placements: places, Limiter: s.Limiter, Slices: s.Slices,
		Parallel: instancesAtOnce(s.Backend),
		Warmup: func(ctx context.Context, name string, inst backend.Instance) error {
			if err := warm(ctx, m, samples, inst); err != nil {
				return err
			}
			if !first.CompareAndSwap(false, true) {
				return nil // once is enough
			}
			return runGolden(ctx, m, asked, inst)
		},
	})
	if err != nil {
		if cerr := m.loaded.Close(); cerr != nil {
			s.Log.Error("closing a model that failed to start", "model", s.Name, "version", s.Version, "err", cerr)
		}
		return err
	}
	return nil
}

// Name returns the model's name.
func (m *Model) Name() string { return m.name }

// Version returns the version's number.
func (m *Model) Version() int64 { return m.version }

// VersionText returns the version's number in decimal.
func (m *Model) VersionText() string { return m.versionText }

// Decoupled reports whether a request may have any number of responses.
func (m *Model) Decoupled() bool { return m.decoupled }

// Labels returns the class labels of an output.
func (m *Model) Labels(output string) []string { return m.labels[output] }

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

// Healthy returns nil if the version can take requests now, else why not: the backend says so.
func (m *Model) Healthy() error {
	if h, ok := m.loaded.(backend.Health); ok {
		return h.Healthy()
	}
	return nil
}

// Processes describes the processes of the instances; nil for a model that runs in this one.
func (m *Model) Processes() []backend.Process {
	if r, ok := m.loaded.(backend.ProcessReporter); ok {
		return r.Processes()
	}
	return nil
}

// Ready is Healthy, and asks the model itself if it can be asked. It may take until ctx ends.
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

// Golden returns how many golden requests the version was put and has answered as it should.
func (m *Model) Golden() int { return m.golden }

// Acquire reserves a place for one request; false: the model is closing, look it up again. Infer uses the place up.
func (m *Model) Acquire() bool {
	if m.inflight.Add(1) >= closing {
		m.letGo()
		return false
	}
	return true
}

func (m *Model) letGo() {
	if m.inflight.Add(-1) == closing {
		m.once.Do(func() { close(m.drained) })
	}
}

// Infer checks r and queues it, or runs it at once if it is alone and its model brief (see inline.go). The caller has
// called Acquire. On an error there will be no response.
func (m *Model) Infer(r *infer.Request) error {
	if r.Times.Arrived == 0 {
		r.Times.Arrived = infer.Now()
	}
	if err := m.signature.check(r); err != nil {
		m.letGo()
		return err
	}
	if m.devices != nil || r.OnDevice {
		if err := m.settle(r); err != nil {
			m.letGo()
			return err
		}
	}
	if r.Origin != nil && m.set != nil && r.Origin.Holds(m.name) >= m.set.Count() {
		m.letGo()
		return status.Errorf(status.InvalidArg, "model '%s' is called for the sake of requests that hold all of its %d instances: the call would wait for itself; raise instance_group.count or call another model",
			m.name, m.set.Count())
	}
	if r.Served == nil { // else it waited for the model to be loaded, and its caller may look at Served now
		r.Served = m
	}
	if m.noteUse {
		m.lastUse.Store(int64(infer.Now()))
	}
	r.Observe(m)
	if r.Trace != nil {
		r.Trace.Admitted(r)
	}
	if m.cache != nil && m.answerFromCache(r) {
		return nil
	}
	m.stats.Admitted()
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
		m.letGo()
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
		m.noteCache(r, resp)
	}
	m.signature.reshapeOutputs(r, resp)
	reason := stats.Other
	if resp.Err != nil {
		reason = stats.ReasonOf(resp.Err, executed)
	}
	if m.decoupled && executed {
		m.stats.Responded(r, resp)
	}
	m.stats.Finished(r, resp, reason)
	m.letGo()
}

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
	watch := m.machine.Watch(gpusOf(places))
	err = m.set.Resize(ctx, places)
	grown := watch.End()
	if err != nil {
		return err
	}
	m.placed(gpusOf(places), grown)
	m.mu.Lock()
	m.cfg = cfg
	m.mu.Unlock()
	return nil
}

// placements lists the instances that a configuration asks for. A host policy that a group names and the server does not have
// is told of: the model runs without, as in Triton.
func (m *Model) placements(cfg *inferencepb.ModelConfig) ([]backend.Placement, error) {
	for _, g := range cfg.GetInstanceGroup() {
		name := g.GetHostPolicy()
		if _, ok := m.policies[name]; name != "" && !ok {
			m.log.Warn("an instance group's host policy is not one of the server's; its instances may use all cores", "model", m.name, "host_policy", name,
				"known", slices.Sorted(maps.Keys(m.policies)), "mend", "--host-policy="+name+",cpu-cores=<cores>")
		}
	}
	return instance.Placements(cfg, m.defCount, m.machine.IDs(), m.policies)
}

// instancesAtOnce is how many instances of a model a backend makes side by side: each may take a core for its own.
func instancesAtOnce(b backend.Backend) int {
	if !b.Traits().ParallelInstances {
		return 1
	}
	return max(4, runtime.NumCPU())
}

// Refit checks an ensemble against the models of its steps as they are now, after one has changed, and forgets the answers that
// were kept. Other models always fit. Errors: InvalidArg.
func (m *Model) Refit(models ensemble.Lookup) error {
	g, ok := m.scheduler.(*ensemble.Graph)
	if !ok {
		return nil
	}
	if err := g.Refit(models); err != nil || m.cache == nil {
		return err
	}
	if err := keepable(m.name, m.Config(), models); err != nil {
		return err
	}
	return m.keepAnew()
}

// newBatcher returns the scheduler that a configuration asks for.
func (m *Model) newBatcher(s Spec, coresBusy func() bool) (sched.Batcher, error) {
	if s.Config.GetSequenceBatching() == nil {
		return newBatcher(s.Config, coresBusy), nil
	}
	p, err := sequencePolicy(s.ModelFolder, s.Config)
	if err != nil {
		return nil, err
	}
	m.sequences = sched.NewSequences(p)
	return m.sequences, nil
}

// refuse lets Acquire fail from now on.
func (m *Model) refuse() {
	m.refused.Do(func() {
		if m.inflight.Add(closing) == closing {
			m.once.Do(func() { close(m.drained) })
		}
	})
}

// Close refuses new requests, waits until those admitted have their final response or ctx ends, then closes the
// instances and the loaded files. It is called once.
func (m *Model) Close(ctx context.Context) error {
	m.refuse()
	if m.sequences != nil {
		m.sequences.Finish()
	}
	select {
	case <-m.drained:
	case <-ctx.Done():
	}
	m.scheduler.Close()
	if m.set != nil {
		m.set.Close(ctx)
	}
	if m.cache != nil {
		m.cache.Drop(m.owner())
	}
	if m.loaded == nil {
		return nil
	}
	return m.loaded.Close()
}

// Idle reports whether no request is inside.
func (m *Model) Idle() bool { return m.inflight.Load()&^closing == 0 }

func folderOf(modelFolder, name string) string {
	return filepath.Join(modelFolder, filepath.FromSlash(name))
}
