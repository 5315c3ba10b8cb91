package python

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/inferencepb"
	"nereid/engine/metrics/custom"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// Options of the backend.
type Options struct {
	// Settings are those of --backend-config=python,key=value; see Known.
	Settings map[string]string
	// Folder has the unpacked Python modules and the environments. Other users must not be able to write there. "":
	// nereid/python in the user's cache folder.
	Folder string
	// Requirements is a requirements.txt for all models that have no separate environment. "": none.
	Requirements string
	// Launcher starts the processes. It is closed after the backend.
	Launcher *worker.Launcher
	// Metrics takes the metrics that models make. nil: models cannot make metrics.
	Metrics *custom.Registry
	Log     *slog.Logger // nil: none
}

// Backend runs Python models.
type Backend struct {
	o        Options
	log      *slog.Logger
	settings settings
	runtime  runtimeFiles
	envs     environments

	mu     sync.Mutex
	ready  map[string]*completed // guarded by mu: processes that completed a configuration, by their version folder
	closed bool
	wg     sync.WaitGroup
}

var (
	_ backend.Backend         = (*Backend)(nil)
	_ backend.ConfigCompleter = (*Backend)(nil)
)

// New returns the backend. The caller closes all its models, then the backend. Errors: InvalidArg for invalid settings.
func New(o Options) (*Backend, error) {
	s, err := parseSettings(o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Launcher == nil {
		return nil, status.New(status.Internal, "python: Options.Launcher is nil")
	}
	if o.Folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, status.Errorf(status.InvalidArg,
				"python: Options.Folder is empty, and there is no cache folder: %w", err)
		}
		o.Folder = filepath.Join(cache, "nereid", "python")
	}
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return nil, status.Errorf(status.Internal, "python: %w", err)
	}
	if o.Requirements != "" { // installers run in another working directory
		if o.Requirements, err = filepath.Abs(o.Requirements); err != nil {
			return nil, status.Errorf(status.Internal, "python: %w", err)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{o: o, log: o.Log, settings: s, ready: map[string]*completed{},
		runtime: runtimeFiles{folder: filepath.Join(o.Folder, "runtime")}}
	b.envs = environments{folder: filepath.Join(o.Folder, "environments"), interpreter: s.interpreter,
		requirements: o.Requirements, log: o.Log, env: o.Launcher.Env()}
	return b, nil
}

// Name returns "python".
func (b *Backend) Name() string { return modelconfig.BackendPython }

// Traits implements backend.Backend.
func (b *Backend) Traits() backend.Traits {
	return backend.Traits{ParallelInstances: true, IgnoresExtras: true}
}

// Close kills the processes that have completed a configuration and were not used.
func (b *Backend) Close() {
	b.mu.Lock()
	b.closed = true
	for folder, c := range b.ready {
		delete(b.ready, folder)
		c.expire()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// Load finds the model's file and its environment, and builds the environment if it does not exist.
func (b *Backend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if unused := unusedFields(s.Config); len(unused) > 0 {
		b.log.Warn("the code of a Python model gets nothing of a part of its configuration", "model", s.ModelName,
			"version", s.Version, "fields", strings.Join(unused, ", "))
	}
	return b.load(ctx, s, filepath.Join(s.VersionFolder, cmp.Or(s.Config.GetDefaultModelFilename(), "model.py")), "")
}

// unusedFields lists the fields of a configuration that are accepted, as in Triton, and do nothing in Python models.
func unusedFields(cfg *inferencepb.ModelConfig) (all []string) {
	if len(cfg.GetBatchInput()) > 0 {
		all = append(all, "batch_input")
	}
	if len(cfg.GetBatchOutput()) > 0 {
		all = append(all, "batch_output")
	}
	if len(cfg.GetSequenceBatching().GetState()) > 0 {
		all = append(all, "sequence_batching.state")
	}
	return all
}

// load loads a model whose code is in a file. platform is the python-based backend, "" for a model's own code.
func (b *Backend) load(ctx context.Context, s backend.Spec, file, platform string) (*model, error) {
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, status.Errorf(status.NotFound, "model file %s of model '%s' version %d is not there", file,
				s.ModelName, s.Version)
		}
		return nil, status.Errorf(status.Internal, "cannot read the file of model '%s' version %d: %w", s.ModelName,
			s.Version, err)
	}
	m := &model{b: b, spec: s, file: file, platform: platform}
	m.Suspects = b.o.Launcher.NewSuspects(s.ModelName, b.log)
	m.log = s.Log
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.log = m.log.With("model", s.ModelName, "version", s.Version)
	var err error
	if m.limits, err = b.settings.limits.Of(s.Config); err != nil {
		return nil, err
	}
	if m.visible, err = visibilityOf(s.Config, b.settings); err != nil {
		return nil, err
	}
	if m.runtime, err = b.runtime.unpack(); err != nil {
		return nil, errUnpack(err)
	}
	if m.env, err = b.envs.of(ctx, s, platform, m.log); err != nil {
		return nil, err
	}
	m.outputs = &worker.Outputs{Types: map[string]tensor.DataType{}}
	for _, out := range s.Config.GetOutput() {
		m.outputs.Types[out.GetName()] = tensor.DataType(out.GetDataType())
	}
	return m, nil
}

func errUnpack(err error) error {
	return status.Errorf(status.Internal, "the Python modules of the server cannot be unpacked: %w", err)
}

// completed is a process that has completed a model's configuration and waits to become its first instance.
type completed struct {
	w      *worker.Worker
	stamp  string // see model.stamp
	expire func() // ends the wait; nil: it is claimed
	caller *isolation.Caller
}

// claimTimeout is how long a process that has completed a configuration is kept.
const claimTimeout = 30 * time.Second

// CompleteConfig runs the model's auto_complete_config, if it has one.
func (b *Backend) CompleteConfig(ctx context.Context, s backend.Spec) error {
	return b.complete(ctx, s, filepath.Join(s.VersionFolder, cmp.Or(s.Config.GetDefaultModelFilename(), "model.py")),
		"")
}

func (b *Backend) complete(ctx context.Context, s backend.Spec, file, platform string) error {
	if _, err := os.Stat(file); err != nil {
		return nil // Load reports it
	}
	m, err := b.load(ctx, s, file, platform)
	if err != nil {
		return err
	}
	c := isolation.NewCaller(s.Host, b.o.Metrics)
	w, err := m.spawn(ctx, backend.Placement{Name: s.ModelName}, c, nil)
	if err != nil {
		return err
	}
	var reply struct {
		Config    jsonText `json:"config"`
		Completed bool     `json:"completed"`
	}
	err = w.Call(ctx, "auto_complete", map[string]any{
		"model_path": file, "config": jsonText(modelconfig.MarshalJSON(s.Config)), "model_repository": s.ModelFolder,
		"model_version": versionText(s.Version), "model_name": s.ModelName, "platform": platform,
		"model_dir": s.VersionFolder,
	}, &reply)
	if err == nil && reply.Completed {
		err = replaceConfig(s.Config, reply.Config)
	}
	if err != nil {
		w.Kill()
		c.Close()
		return m.missing(err)
	}
	b.keep(s.VersionFolder, &completed{w: w, stamp: m.stamp(), caller: c})
	return nil
}

// replaceConfig replaces cfg by what the model has returned, except for what a model may not change.
func replaceConfig(cfg *inferencepb.ModelConfig, text []byte) error {
	next, _, faults := modelconfig.ParseJSON("auto_complete_config", text)
	if err := faults.Err(); err != nil {
		return err
	}
	next.Name, next.Backend, next.Platform = cfg.Name, cfg.Backend, cfg.Platform
	next.VersionPolicy, next.DefaultModelFilename = cfg.VersionPolicy, cfg.DefaultModelFilename
	proto.Reset(cfg)
	proto.Merge(cfg, next)
	return nil
}

// keep keeps a process for NewInstance, for claimTimeout at most.
func (b *Backend) keep(folder string, c *completed) {
	ctx, stop := context.WithTimeout(context.Background(), claimTimeout)
	claimed := false // guarded by b.mu
	c.expire = stop
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.ready[folder]; old != nil {
		delete(b.ready, folder)
		old.expire()
	}
	if b.closed {
		stop()
	} else {
		b.ready[folder] = c
	}
	b.wg.Go(func() {
		defer stop()
		select {
		case <-ctx.Done():
		case <-c.w.Done():
		}
		b.mu.Lock()
		claimed = c.expire == nil
		if b.ready[folder] == c {
			delete(b.ready, folder)
		}
		b.mu.Unlock()
		if !claimed {
			c.w.Kill()
			c.caller.Close()
		}
	})
}

// claim returns the process that is kept for a version folder; nil: there is none with this stamp.
func (b *Backend) claim(folder, stamp string) *completed {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.ready[folder]
	if c == nil || c.stamp != stamp || c.w.Err() != nil {
		return nil
	}
	delete(b.ready, folder)
	stop := c.expire
	c.expire = nil
	stop()
	return c
}
