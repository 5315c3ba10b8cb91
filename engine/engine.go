package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/agent"
	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/model"
	"nereid/engine/residency"
	"nereid/engine/shm"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// ServerVersion is the version of Triton whose behaviour clients see.
const ServerVersion = "2.51.0"

// ControlMode is the way in which models are loaded and unloaded: --model-control-mode.
type ControlMode string

// The control modes.
const (
	ModeNone     ControlMode = "none"     // all models are loaded at start; later changes are ignored
	ModePoll     ControlMode = "poll"     // all models are loaded at start, and again when their files change
	ModeExplicit ControlMode = "explicit" // load and unload requests load and unload models
)

// EventListener is notified of changes of models; see lifecycle.Events for when and how its functions are called.
type EventListener = lifecycle.Events

// LoadParameters replace a model's configuration and files in a load request.
type LoadParameters struct {
	ConfigJSON string            // "": the repository's configuration
	Files      map[string][]byte // by path in the model folder: "1/model.onnx"
	// Version, if not 0, is the only version to load; the others stay as they are. ConfigJSON and Files must be empty.
	Version int64
}

// ModelOptions select and configure the models that are served.
type ModelOptions = lifecycle.Options

// Options configure an Engine.
type Options struct {
	// ModelOptions are passed to package lifecycle. The default of Agents is agent.All(). If Log is nil, nothing is
	// logged. Loads, failed loads and unloads are logged only by Events; see LogEvents.
	ModelOptions
	// Mode is the control mode. "": ModeNone.
	Mode ControlMode
	// PollInterval of ModePoll. 0: 15 s; negative: changes are not looked for. Those that the file system notifies of
	// are found at once.
	PollInterval time.Duration
	// StartupModels are loaded at start in ModeExplicit; "*" alone: all.
	StartupModels []string
	// ID is the server's name in its metadata. "": "triton".
	ID string
	// LooseReadiness: the server is ready although a model failed to load (--strict-readiness=false).
	LooseReadiness bool
	// SharedMemory configures the memory that clients share with the server. The zero value allows system regions.
	SharedMemory shm.Options
	// Latencies selects what the statistics keep of latencies in addition to sums, for the metrics (--metrics-config).
	Latencies stats.Detail
}

// Engine serves models. Its methods are safe for concurrent use.
type Engine struct {
	o       Options
	models  *lifecycle.Manager
	stats   *stats.Registry
	counted *stats.Waiter // of Activity
	shared  *shm.Registry
	started time.Time
	live    atomic.Bool
	up      atomic.Bool // Start has loaded its models
	paused  atomic.Bool
	ending  atomic.Bool // requests that continue no sequence are refused

	mu     sync.Mutex
	closed bool               // guarded by mu, as are the next two
	cancel context.CancelFunc // stops the polling; nil: there is none
	failed []error            // what failed to load at start
	wg     sync.WaitGroup     // the polling
	once   sync.Once
}

// New returns an engine that serves nothing yet: see Start. The caller closes it.
func New(o Options) (*Engine, error) {
	o.Mode = cmp.Or(o.Mode, ModeNone)
	o.ID = cmp.Or(o.ID, "triton")
	o.PollInterval = cmp.Or(o.PollInterval, 15*time.Second)
	if o.Agents == nil {
		o.Agents = agent.All()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !slices.Contains([]ControlMode{ModeNone, ModePoll, ModeExplicit}, o.Mode) {
		return nil, status.Errorf(status.InvalidArg, "model control mode %q is none of none, poll, explicit", o.Mode)
	}
	if o.Settle < 0 || o.LoadThreads < 0 || o.LoadRetries < 0 {
		return nil, status.New(status.InvalidArg, "settle time, load threads and retries must not be negative")
	}
	e := &Engine{o: o, stats: stats.NewRegistry(o.Latencies), started: time.Now()}
	e.counted = e.stats.Waiter()
	o.SharedMemory.InputBuffer, o.SharedMemory.OnDevice = e.inputBuffer, e.onDevice
	e.shared = shm.New(o.SharedMemory)
	e.models = lifecycle.NewManager(o.ModelOptions, host{e}, e.stats)
	e.live.Store(true)
	return e, nil
}

// Start loads the models that the control mode requires and, in ModePoll, starts to poll the repositories. It returns
// when every model is in service or has failed: see StartFailures. It must be called only once. Errors: Internal if a
// repository cannot be read, Unavailable after Close.
func (e *Engine) Start(ctx context.Context) error {
	var failed []error
	var err error
	switch {
	case e.o.Mode != ModeExplicit || slices.Equal(e.o.StartupModels, []string{"*"}):
		failed, err = e.models.LoadAll(ctx)
	default:
		if err = e.models.Discover(); err == nil {
			failed = e.loadNamed(ctx, e.o.StartupModels)
		}
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return status.New(status.Unavailable, "the engine was closed while it started")
	}
	e.failed = failed
	if e.o.Mode == ModePoll && e.o.PollInterval > 0 {
		run, cancel := context.WithCancel(context.Background())
		e.cancel = cancel
		e.wg.Add(1)
		go func() {
			defer e.wg.Done()
			e.models.Run(run, e.o.PollInterval)
		}()
	}
	e.up.Store(true)
	return nil
}

// StartFailures returns an error for each model that failed to load at start. It is empty until Start returns.
func (e *Engine) StartFailures() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.failed)
}

// loadNamed loads models by name and returns why some failed.
func (e *Engine) loadNamed(ctx context.Context, names []string) (failed []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, name := range names {
		wg.Go(func() {
			if err := e.models.Load(ctx, name, nil); err != nil {
				e.o.Log.Error("failed to load a model of the start", "model", name, "err", err)
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return failed
}

// StopLoads cancels the loads of models under way and refuses others. The models that are loaded go on serving. Close
// does it too; a server that stops calls it first, so that no load request holds it up.
func (e *Engine) StopLoads() { e.models.StopLoads() }

// Close refuses new requests, waits for the admitted ones until ctx is done, cancels the rest and closes every model.
// When it returns, all goroutines of the engine have ended.
func (e *Engine) Close(ctx context.Context) {
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		e.up.Store(false)
		e.live.Store(false)
		if e.cancel != nil {
			e.cancel()
		}
		e.mu.Unlock()
		e.wg.Wait()
		e.models.Close(ctx)
		if err := e.shared.Close(); err != nil {
			e.o.Log.Warn("shared memory could not be released", "err", err)
		}
	})
}

// Infer admits a request. If it returns nil, r.Next returns every response, errors too; otherwise there is none. The
// caller keeps its reference on r. Errors: NotFound for models and versions, InvalidArg for a request that does not fit
// the model, Unavailable.
func (e *Engine) Infer(_ context.Context, r *infer.Request) error {
	if e.paused.Load() {
		r.Failed = errPaused
		return errPaused
	}
	if e.ending.Load() && (r.Correlation.IsZero() || r.Flags&infer.SequenceStart != 0) {
		r.Failed = errEnding
		return errEnding
	}
	return e.infer(r)
}

// infer is Infer also while the engine is paused.
func (e *Engine) infer(r *infer.Request) error {
	m, err := e.models.AcquireFor(r)
	switch {
	case err == nil:
		err = m.Infer(r)
	case errors.Is(err, lifecycle.ErrEvicted):
		err = e.models.Await(r)
	}
	if err != nil {
		r.Failed = err
	}
	return err
}

// Probe sends the first golden request of Options.Probed, as a client does, and compares the response, also while the
// engine is paused. Errors: ErrNoProbe if the model is not in service or has no such request, those of Infer and of
// the response, the context's, and Internal with the first difference.
func (e *Engine) Probe(ctx context.Context) error {
	m, err := e.models.Acquire(e.o.Probed, infer.LatestVersion)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoProbe, err)
	}
	return m.Probe(ctx)
}

// ErrNoProbe is model.ErrNoProbe.
var ErrNoProbe = model.ErrNoProbe

var errPaused = status.New(status.Unavailable,
	"the server is paused, until its user resumes it in the menu of its icon")

// Pause sets whether requests of clients are refused. Those under way finish, also with requests to other models. It
// releases the memory of models that do nothing and are not pinned; their next request loads them.
func (e *Engine) Pause(on bool) {
	e.paused.Store(on)
	if on {
		for _, m := range e.Models() {
			if !m.Pinned {
				_ = e.Evict(m.Name) // of a model at work: it stays
			}
		}
	}
	if e.o.Events.Changed != nil {
		e.o.Events.Changed()
	}
}

// Paused reports whether requests of clients are refused.
func (e *Engine) Paused() bool { return e.paused.Load() }

// Live reports whether the engine runs.
func (e *Engine) Live() bool { return e.live.Load() }

// errEnding has Triton's text.
var errEnding = status.New(status.Unavailable,
	"Server is stopping, scheduler for model has stopped accepting new inference requests")

// FinishSequences lets the sequences of an engine end, before it is closed: it waits until none is live, or ctx is
// done. Meanwhile clients can only continue sequences. If none is live, it does nothing.
func FinishSequences(ctx context.Context, e *Engine) {
	if len(e.models.LiveSequences()) == 0 {
		return
	}
	e.ending.Store(true)
	if e.o.Events.Changed != nil {
		e.o.Events.Changed()
	}
	e.models.AwaitSequences(ctx)
}

// LogRunning logs every second how many requests of each model have no final response yet, until ctx is done.
func LogRunning(ctx context.Context, e *Engine) { e.models.LogRunning(ctx) }

// Ready reports whether Start has finished, the engine is neither paused nor finishing its last sequences, and every
// model that is to be served is in service. The last does not count with LooseReadiness.
func (e *Engine) Ready() bool {
	return e.up.Load() && !e.paused.Load() && !e.ending.Load() && (e.o.LooseReadiness || e.models.AllReady())
}

// inputBuffer returns n bytes of memory for an input that is shared with the model's process; nil if there is none.
func (e *Engine) inputBuffer(name string, version int64, n int) *tensor.Buffer {
	m, err := e.models.Find(name, version)
	if err != nil {
		return nil // the request will fail with this error
	}
	return m.InputBuffer(n)
}

// onDevice reports whether a model takes inputs in the memory of a GPU.
func (e *Engine) onDevice(name string, version int64, gpu int) bool {
	m, err := e.models.Find(name, version)
	return err == nil && m.TakesDeviceMemory(gpu)
}

// SharedMemory returns the regions of memory that clients share with the server.
func (e *Engine) SharedMemory() *shm.Registry { return e.shared }

// Mode returns the model control mode.
func (e *Engine) Mode() ControlMode { return e.o.Mode }

// Started returns when the engine was made.
func (e *Engine) Started() time.Time { return e.started }

// Models returns the status of every known model, ordered by name.
func (e *Engine) Models() []lifecycle.ModelStatus { return e.models.Models() }

// Model returns the status of one model; false if there is none of that name.
func (e *Engine) Model(name string) (lifecycle.ModelStatus, bool) { return e.models.Model(name) }

// Pin sets whether a model stays in memory whatever the budget. nil: its configuration decides.
func (e *Engine) Pin(name string, pinned *bool) { e.models.Pin(name, pinned) }

// Evict releases a model's memory; its next request loads it again. Errors: NotFound, Unavailable while it executes
// requests.
func (e *Engine) Evict(name string) error { return e.models.Evict(name) }

// Residency returns the budget of the models' memory and what they take now.
func (e *Engine) Residency() residency.Status { return e.models.ResidencyStatus() }

// Snapshots copies the statistics of every version, by model and version, into dst, reusing its memory.
func (e *Engine) Snapshots(dst []stats.Snapshot) []stats.Snapshot { return e.stats.Snapshots(dst) }

// Removed returns the last statistics of versions that were unloaded since the call before: see stats.Registry.Removed.
func (e *Engine) Removed() []stats.Snapshot { return e.stats.Removed() }

// Activity returns a channel that receives at the next request, load or unload: see stats.Waiter. Only one goroutine
// may use it.
func (e *Engine) Activity() <-chan struct{} { return e.counted.Activity() }

// Distributions copies the detailed latencies of a version, as far as Options.Latencies selects them. See
// stats.Registry.Distributions.
func (e *Engine) Distributions(model string, version int64, shares []float64, dst *stats.Distributions) bool {
	return e.stats.Distributions(model, version, shares, dst)
}

// Reload loads a model from the repository. Unlike LoadModel, it works in every control mode: the server's operator
// calls it, not a client. It returns the errors of LoadModel.
func (e *Engine) Reload(ctx context.Context, name string) error { return e.models.Load(ctx, name, nil) }

// Remove takes a model out of service, in every control mode. In ModePoll it stays out until its folder is removed or
// Reload is called.
func (e *Engine) Remove(name string) { e.models.Unload(name) }

// errNotExplicit has Triton's text, which clients match.
var errNotExplicit = status.New(status.Unavailable, "explicit model load / unload is not allowed if polling is enabled")

// LoadModel is the protocol's load request. Cancelling ctx stops it while it waits for other loads, and in backends
// that support that. To behave like Triton, a front end passes a context that a disconnecting client does not cancel.
// Errors: Unavailable outside ModeExplicit, Internal if the model or its configuration cannot be read, InvalidArg if a
// version fails to load.
func (e *Engine) LoadModel(ctx context.Context, name string, p LoadParameters) error {
	if e.o.Mode != ModeExplicit {
		return errNotExplicit
	}
	if p.Version != 0 {
		if p.ConfigJSON != "" || len(p.Files) > 0 {
			return status.New(status.InvalidArg,
				"load parameter 'version' cannot be given together with 'config' or 'file:'")
		}
		return e.models.LoadVersion(ctx, name, p.Version)
	}
	return e.models.Load(ctx, name, &lifecycle.Override{Config: p.ConfigJSON, Files: p.Files})
}

// UnloadVersion takes one version out of service; the others stay. Errors: Unavailable outside ModeExplicit, NotFound
// for a version that is not known.
func (e *Engine) UnloadVersion(_ context.Context, name string, version int64) error {
	if e.o.Mode != ModeExplicit {
		return errNotExplicit
	}
	return e.models.UnloadVersion(name, version)
}

// ReloadWith is Reload with a configuration, as JSON, that replaces that of the repository.
func (e *Engine) ReloadWith(ctx context.Context, name, config string) error {
	return e.models.Load(ctx, name, &lifecycle.Override{Config: config})
}

// ReloadVersion is Reload for one version; the others stay as they are.
func (e *Engine) ReloadVersion(ctx context.Context, name string, version int64) error {
	return e.models.LoadVersion(ctx, name, version)
}

// RemoveVersion takes one version out of service, in every control mode: see Remove.
func (e *Engine) RemoveVersion(name string, version int64) error {
	return e.models.UnloadVersion(name, version)
}

// Shadows returns the candidates of the models: versions that get copies of requests.
func (e *Engine) Shadows() lifecycle.Shadows { return lifecycle.ShadowsOf(e.models) }

// RegisterRepository adds a model repository, from which models can then be loaded; only in ModeExplicit. folders,
// which may be nil, gives models other names than their folders': the folder by the model's name. Errors: Unsupported
// in another mode, AlreadyExists, InvalidArg.
func (e *Engine) RegisterRepository(path string, folders map[string]string) error {
	if e.o.Mode != ModeExplicit {
		return status.New(status.Unsupported,
			"repository registration is not allowed if model control mode is not EXPLICIT")
	}
	return e.models.Register(path, folders)
}

// UnregisterRepository removes a model repository. Models loaded from it stay in service until they are unloaded.
// Errors: Unsupported outside ModeExplicit, InvalidArg.
func (e *Engine) UnregisterRepository(path string) error {
	if e.o.Mode != ModeExplicit {
		return status.New(status.Unsupported,
			"repository unregistration is not allowed if model control mode is not EXPLICIT")
	}
	return e.models.Unregister(path)
}

// UnloadModel is the protocol's unload request. If dependents is set, the models of an ensemble's steps are unloaded
// too. Unloading a model that is not loaded is not an error. Errors: Unavailable outside ModeExplicit.
func (e *Engine) UnloadModel(_ context.Context, name string, dependents bool) error {
	if e.o.Mode != ModeExplicit {
		return errNotExplicit
	}
	if dependents {
		e.models.UnloadAll(name)
	} else {
		e.models.Unload(name)
	}
	return nil
}

// host is the part of the engine that backends may use.
type host struct{ e *Engine }

var (
	_ backend.Host   = host{}
	_ backend.Loader = host{}

	_ backend.Inspector = host{}
)

func (h host) Infer(_ context.Context, r *infer.Request) error { return h.e.infer(r) }

func (h host) LoadModel(ctx context.Context, name string) error {
	return h.e.LoadModel(ctx, name, LoadParameters{})
}

func (h host) UnloadModel(ctx context.Context, name string) error {
	return h.e.UnloadModel(ctx, name, false)
}

func (h host) LoadModelAs(ctx context.Context, name, config string, files map[string][]byte) error {
	return h.e.LoadModel(ctx, name, LoadParameters{ConfigJSON: config, Files: files})
}

func (h host) UnloadModelAll(ctx context.Context, name string) error {
	return h.e.UnloadModel(ctx, name, true)
}

func (h host) ModelDecoupled(name string, version int64) (bool, error) {
	m, err := h.e.models.Find(name, version)
	if err != nil {
		return false, err
	}
	return m.Decoupled(), nil
}

func (h host) ModelReady(name string, version int64) bool {
	return h.e.models.VersionReady(name, version)
}

// extensions are the supported ones of Triton's server metadata, in its order, and the name of this server.
var extensions = []string{
	"classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
	"model_configuration",
	systemSharedMemory, cudaSharedMemory, "binary_tensor_data", "parameters", "statistics", "trace", "logging",
	"nereid",
}

// Extensions that depend on the server's options.
const (
	systemSharedMemory = "system_shared_memory"
	cudaSharedMemory   = "cuda_shared_memory"
)

// Extensions returns the names of the supported protocol extensions.
func (e *Engine) Extensions() []string {
	all := slices.Clone(extensions)
	return slices.DeleteFunc(all, func(x string) bool {
		return x == systemSharedMemory && !e.shared.Allows(shm.System) || x == cudaSharedMemory &&
			!e.shared.Allows(shm.CUDA)
	})
}

// ServerMetadata answers the protocol's server metadata request.
func (e *Engine) ServerMetadata() *inferencepb.ServerMetadataResponse {
	return &inferencepb.ServerMetadataResponse{Name: e.o.ID, Version: ServerVersion, Extensions: e.Extensions()}
}
