package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"nereid/app/access"
	tunecmd "nereid/app/command/tune"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/configs"
	"nereid/app/console/machine"
	"nereid/app/console/models"
	"nereid/app/console/settings"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/cache"
	"nereid/engine/cache/redis"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/grpcapi"
	"nereid/engine/httpapi"
	"nereid/engine/metrics"
	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
	"nereid/engine/restrict"
	"nereid/engine/status"
	"nereid/engine/trace"
	"nereid/engine/worker"
	"nereid/frontend"
	"nereid/store"
)

// open makes every part and binds every port, but serves nothing yet.
func (s *server) open(ctx context.Context) error {
	s.cores = runtime.GOMAXPROCS(0) // before it is changed
	tuneMemory()
	for _, name := range s.c.WithoutEffect {
		s.log.Info("the option --" + name + " has no effect in this server")
	}
	if err := s.openData(); err != nil {
		return err
	}
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if err := s.openAccess(ctx); err != nil {
		return err
	}
	if err := s.openRepositories(); err != nil {
		return err
	}
	var err error
	if s.sockets, err = listen(s.c); err != nil {
		return err
	}
	s.recorder = history.New(nil, s.store)
	if err := s.openBackends(); err != nil {
		return err
	}
	if err := s.openEngine(); err != nil {
		return err
	}
	s.recorder.SetSource(s.engine)
	pins, err := models.Pins(ctx, s.store)
	if err != nil {
		return err
	}
	for name, pinned := range pins {
		s.engine.Pin(name, &pinned)
	}
	if err := s.openTrace(); err != nil {
		return err
	}
	return s.openFrontEnds()
}

// tuneMemory sets what of Go's runtime the environment does not.
func tuneMemory() {
	// Long calls into C hold a scheduler slot each: with as many slots as cores, handlers would wait behind them.
	// Measured with one ONNX Runtime instance on two cores: +60 % requests/s over the default.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	}
	// A request leaves little behind, but the live heap is small, so that by default the collector would run hundreds of
	// times a second under load; the extra memory is a few times the live heap.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// With large tensors alive a few times the heap can be more than there is: near this bound the collector runs more often.
	if memory := device.Host().Memory; os.Getenv("GOMEMLIMIT") == "" && memory > 0 {
		debug.SetMemoryLimit(memory / 10 * 7)
	}
}

// openBackends looks at the machine and makes the backends.
func (s *server) openBackends() (err error) {
	s.machine = openMachine(s.c, s.log)
	s.regions, s.gpuMemory, s.closeCUDA = openCUDA(s.machine, gpumem.Options{PinnedBytes: s.c.PinnedBytes, DeviceBytes: s.c.CUDABytes, Log: s.log})
	s.launcher = worker.NewLauncher(s.log)
	s.ort = newORT(s.c, s.data, s.gpuMemory, s.launcher, s.log)
	if s.python, err = newPython(s.c, s.data, s.launcher, s.log); err != nil {
		return err
	}
	s.backends = append(append(builtin.All(), s.ort.backend()), s.python.all...)
	return nil
}

// openEngine makes the engine, with what it keeps in the data folder.
func (s *server) openEngine() (err error) {
	overrides := s.data.join("overrides")
	if err := errors.Join(os.RemoveAll(overrides), os.MkdirAll(overrides, 0o700)); err != nil {
		return fmt.Errorf("cannot prepare the data folder: %w", err)
	}
	repositories := s.c.Repositories
	if s.archives, err = s.cloudRepository(); err != nil {
		return err
	}
	if s.archives != "" {
		repositories = append(slices.Clone(repositories), s.archives)
	}
	if err := s.openCache(); err != nil {
		return err
	}
	shared := s.c.sharedMemory()
	if !shared.Disabled {
		shared.CUDA = s.regions
	}
	s.engine, err = engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: repositories, Remotes: s.remotes, Namespaces: s.c.Namespaces,
			Backends: s.backends, DisableAutoComplete: s.c.DisableAutoComplete,
			DefaultMaxBatchSize: s.c.defaultMaxBatchSize(), DefaultMaxBatchSizes: s.c.DefaultMaxBatchSizes,
			ConfigName: s.c.ConfigName, LoadThreads: s.c.LoadThreads, LoadRetries: s.c.LoadRetries,
			Residency: s.c.Residency, ResourcesFirst: s.c.ResourcesFirst, OverrideFolder: overrides,
			Cache: s.cache, Log: s.log, Events: s.events(), RateLimiter: s.c.limiter(), Machine: s.machine,
			GPULimits: s.c.GPULimits, HostPolicies: s.c.HostPolicies,
		},
		Mode: s.c.mode(), PollInterval: s.c.pollInterval(), StartupModels: s.c.LoadModels, ID: s.c.ID,
		LooseReadiness: !s.c.StrictReadiness, SharedMemory: shared, Latencies: s.c.Metrics.Latencies,
	})
	return err
}

// openTrace makes what samples requests. Settings that trace nothing do not keep the server from starting, as in Triton.
func (s *server) openTrace() error {
	var err error
	if s.trace, err = trace.New(trace.Options{Settings: s.c.Trace, Telemetry: s.c.Telemetry, Log: s.log}); err != nil {
		return fmt.Errorf("--trace-config: %w", err)
	}
	if why := s.trace.Fault(); why != "" {
		s.warn("nothing is traced: " + why + "; say --trace-config=triton,file=<path>")
	}
	return nil
}

// openData opens the data folder. Triton keeps nothing and starts without a home, and twice on one machine: under its
// name, a data folder that nobody asked for and that cannot be had is replaced by a temporary one.
func (s *server) openData() error {
	var err error
	if s.data, err = openDataDir(s.c.DataDir); err != nil {
		if !s.c.AsTriton || !s.c.defaultData {
			return err
		}
		temporary, terr := openTemporaryDataDir()
		if terr != nil {
			return errors.Join(err, terr)
		}
		s.data = temporary
		s.warn(fmt.Sprintf("the history and removed models are kept in %s only while this server runs, for want of --data-dir=<folder>: %v", s.data.path, err))
	}
	s.c.DataDir = s.data.path
	return nil
}

// openStore opens the history. Inference matters more than its record: where the history cannot be opened, it is kept
// in memory for this run, and the log and the page say so.
func (s *server) openStore(ctx context.Context) error {
	var err error
	if s.store, err = store.Open(ctx, s.data.path, store.Options{}); err == nil {
		s.warn(s.store.Warnings()...)
		return nil
	}
	s.warn(fmt.Sprintf("the history cannot be opened and is kept in memory until the server stops; what was recorded before is untouched: %v", err))
	s.store, err = store.OpenMemory(ctx, store.Options{})
	return err
}

// warn logs warnings and keeps them for the page.
func (s *server) warn(texts ...string) {
	for _, text := range texts {
		s.log.Warn(text)
		s.warnings = append(s.warnings, api.Warning{Severity: api.SeverityWarning, Text: text})
	}
}

// warnOpen says loudly that everybody may come in.
func (s *server) warnOpen() {
	for _, e := range s.c.endpoints() {
		if e.on && !loopback(e.address) && !s.tokens.Required() {
			s.warn("the " + e.what + " listens on " + e.address + " without a token: everybody who can reach this machine can use its models")
		}
	}
}

// openAccess reads the tokens and refuses to listen where nothing guards.
func (s *server) openAccess(ctx context.Context) error {
	var err error
	if s.tokens, err = access.New(ctx, access.Options{Store: s.store, Environment: s.c.Token, Log: s.log}); err != nil {
		return err
	}
	if err := s.c.checkAccess(s.tokens.Exist()); err != nil {
		return err
	}
	s.network = newNetwork(ctx, s)
	s.tokens.RequireAlways(s.network.choice.Open || s.wide() && !s.c.AllowAnonymous)
	s.warnOpen()
	s.warnHalfRestricted()
	return nil
}

// wide reports whether an option lets others reach this server.
func (s *server) wide() bool {
	return slices.ContainsFunc(s.c.endpoints(), func(e endpoint) bool { return e.on && !loopback(e.address) })
}

// warnHalfRestricted says which groups are guarded on one protocol and open on the other: the options are separate, as
// Triton's are, and one of them is easily forgotten.
func (s *server) warnHalfRestricted() {
	if !s.c.AllowHTTP || !s.c.AllowGRPC {
		return
	}
	var none restrict.Rules
	h, g := cmp.Or(s.c.HTTPRestricted, &none), cmp.Or(s.c.GRPCRestricted, &none)
	for _, group := range h.Restricted() {
		if g.Header(group) == "" {
			s.warn(fmt.Sprintf("%v is restricted over HTTP and open over gRPC; --grpc-restricted-protocol=%v:<key>=<value> restricts it there", group, group))
		}
	}
	for _, group := range g.Restricted() {
		if h.Header(group) == "" {
			s.warn(fmt.Sprintf("%v is restricted over gRPC and open over HTTP; --http-restricted-api=%v:<key>=<value> restricts it there", group, group))
		}
	}
}

// openRepositories makes the first repository where none is named, and checks those that are.
func (s *server) openRepositories() error {
	if len(s.c.Repositories) == 0 {
		if s.c.AsTriton {
			return status.New(status.InvalidArg, "--model-repository must be specified")
		}
		own := s.data.join("models")
		if err := os.MkdirAll(own, 0o755); err != nil {
			return fmt.Errorf("cannot make a model repository: %w", err)
		}
		s.c.Repositories = []string{own}
		if s.c.ControlMode == "" {
			s.c.ControlMode = "poll"
		}
		s.log.Info("no --model-repository was given; models live in " + own)
	}
	for i, r := range s.c.Repositories {
		if cloud.Is(r) {
			if err := s.openRemote(r); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(r)
		if err != nil {
			return fmt.Errorf("--model-repository: %w", err)
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			var pathErr *fs.PathError
			if errors.As(err, &pathErr) {
				err = pathErr.Err // the path is said already
			}
			return status.Errorf(status.Internal, "failed to stat file %s: %w; correct --model-repository, or make the folder", path, err)
		case !info.IsDir():
			return status.Errorf(status.InvalidArg, "model repository %s is not a folder", path)
		}
		if above, is := modelFolder(path); is {
			s.warn(fmt.Sprintf("--model-repository=%s looks like one model's own folder; a model repository is the folder above it: --model-repository=%s", path, above))
		}
		s.c.Repositories[i] = path
	}
	return nil
}

// openRemote makes a repository in a cloud's storage. What is copied from there stays in the data folder.
func (s *server) openRemote(address string) error {
	r, err := cloud.Open(context.Background(), address, cloud.Options{Cache: s.data.join("remote"), Lookup: os.LookupEnv, Log: s.log})
	if err != nil {
		return err
	}
	if s.remotes == nil {
		s.remotes = map[string]repo.Remote{}
	}
	s.remotes[address], s.storage = r, append(s.storage, r)
	return nil
}

func (s *server) openCache() error {
	switch {
	case s.c.CacheSize > 0:
		local, err := cache.New(int64(s.c.CacheSize))
		if err != nil {
			return err
		}
		s.cache = local
	case s.c.CacheRedis != nil:
		shared, err := redis.New(s.c.CacheRedis, s.log)
		if err != nil {
			return err
		}
		s.cache, s.redis = shared, shared
	}
	return nil
}

// cacheStats returns what the metrics ask for the response cache's counts, nil if there is none.
func (s *server) cacheStats() func() cache.Stats {
	if s.cache == nil {
		return nil
	}
	return s.cache.Stats
}

func (s *server) openFrontEnds() error {
	var err error
	if err = s.openTLS(); err != nil {
		return err
	}
	if s.c.AllowMetrics {
		if s.metrics, err = metrics.New(metrics.Options{
			Source: s.engine, Cache: s.cacheStats(), Custom: s.python.metrics.Append, Version: Version, Log: s.log, OmitCPU: !s.c.AllowCPUMetrics, GPUs: s.gpuMetrics(),
			GPUMemory: s.gpuMemory, PinnedBytes: s.c.PinnedBytes,
			Interval: time.Duration(s.c.MetricsIntervalMs) * time.Millisecond, OmitCounterLatencies: s.c.Metrics.NoLatencyCounters, Quantiles: s.c.Metrics.Quantiles,
		}); err != nil {
			return err
		}
	}
	if s.c.AllowHTTP {
		if s.http, err = httpapi.New(httpapi.Options{
			Engine: s.engine, Log: s.log, Trace: s.trace, LogControl: s.control, BasePath: s.c.HTTPBasePath, MaxBody: int64(s.c.HTTPMaxInput),
			AllowedHosts: s.allowedHosts(s.c.HTTPAddress), Authorize: authorizeHTTP(s.tokens),
			Restricted: s.c.HTTPRestricted, ForwardHeaders: s.c.HTTPForward, AllowedOrigins: s.c.AllowedOrigins,
			Metrics: s.metricsText(), V1: s.c.HTTPV1,
		}); err != nil {
			return err
		}
	}
	if s.c.AllowGRPC {
		if s.grpc, err = grpcapi.New(grpcapi.Options{
			Engine: s.engine, Log: s.log, TLS: s.secure["grpc"], Trace: s.trace, LogControl: s.control, Authorize: authorizeGRPC(s.tokens),
			Keepalive: keepaliveParams(s.c), Enforcement: keepalivePolicy(s.c),
			Restricted: s.c.GRPCRestricted, ForwardMetadata: s.c.GRPCForward,
			Reflection: s.c.GRPCReflection, CompressResponses: s.c.GRPCCompression != "none",
		}); err != nil {
			return err
		}
	}
	if err := s.openCloud(); err != nil {
		return err
	}
	if s.c.AllowUI {
		return s.openConsole()
	}
	return nil
}

// metricsText gives the metrics as text, nil if there are none.
func (s *server) metricsText() func([]byte) []byte {
	if s.metrics == nil {
		return nil
	}
	return s.metrics.Append
}

// allowedHosts are the Host headers that are served: on loopback only our own names, against DNS rebinding; where a
// wider address was asked for, any, because the machine's names are not ours to know.
func (s *server) allowedHosts(address string) []string {
	if !loopback(address) && len(s.c.AllowedHosts) == 0 {
		return []string{"*"}
	}
	return append(ownNames(), s.c.AllowedHosts...)
}

func (s *server) openConsole() error {
	o := console.Options{
		Engine: s.engine, Store: s.store, Recorder: s.recorder, Page: frontend.FS(), Log: s.log,
		Repositories: s.c.Repositories, Namespaces: s.c.Namespaces, DataDir: s.data.path,
		Check: configs.CheckOptions{
			Backends: s.backends, Machine: s.machine, AutoComplete: !s.c.DisableAutoComplete, DefaultMaxBatchSize: 4,
		},
		HostPolicies: s.c.HostPolicies,
		Server: machine.Description{
			Version: Version, PollEvery: s.c.pollInterval(), Addresses: s.addresses, ONNXRuntime: s.ort.describe,
			Warnings: func() []api.Warning { return s.warnings },
		},
		AllowedHosts: s.c.AllowedHosts,
		Access:       settings.Access{Tokens: s.tokens, Network: s.network},
		Environment:  s.python.own.EnvironmentOf,
		Frameworks:   frameworks{folder: s.data.python(), interpreter: s.c.interpreter()},
		Tuner: &tunecmd.Console{
			Program: tuneProgram(), ServerOptions: tunecmd.ServerOptions(s.c.args), Python: s.data.python(),
			Cores: s.cores, GPUs: len(s.machine.IDs()),
		},
	}
	if s.shell != nil {
		o.Window = &settings.Window{
			Pick: s.shell.pick, Desktop: newOnDesktop(context.Background(), s.store, s.shell.keep, s.log),
		}
	}
	if n := s.c.defaultMaxBatchSize(); n != nil {
		o.Check.DefaultMaxBatchSize = *n
	}
	if l := s.sockets["http"]; l != nil {
		// Requests of the page go through the same check as any client's.
		o.Inference.Dial = s.dialInference(l.Addr())
		o.Inference.Header = http.Header{"Authorization": {s.tokens.Internal()}}
	}
	c, err := console.New(o)
	if err != nil {
		return err
	}
	s.console.Store(c)
	return nil
}
