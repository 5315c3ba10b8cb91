package runtime

import (
	"context"
	"encoding/json"
	"log/slog"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/worker"
	"nereid/engine/worker/process"
)

// Options of a backend of a framework.
type Options struct {
	// Settings are those of --backend-config=<name>,key=value, as CheckSetting takes them.
	Settings map[string]string
	// Environment is the folder of the framework's Python environment, which may not exist.
	Environment string
	// Interpreter is the machine's Python, which may have the framework too. "": it is not used.
	Interpreter string
	// Install is how to install the framework, for errors: "run 'nereid install tensorflow' (1.6 GB)".
	Install string
	// Launcher starts the processes. Their command is Worker, which must call ServeWorker, and WorkerEnv is added to
	// this program's environment.
	Launcher          *worker.Launcher
	Worker, WorkerEnv []string
}

// Backend runs the models of one framework in separate processes.
type Backend struct {
	o       Options
	f       framework
	machine machine
}

// framework describes one framework.
type framework struct {
	name, title string
	// env is added to the environment of its processes.
	env    []string
	pkg    string   // the Python package
	places []string // patterns of the library's path below the package's folder
	names  []string // of the library, for the system's loader
	// signature reads a model file in the server. Nil: a process does.
	signature func(s backend.Spec, log *slog.Logger) (*modelconfig.Signature, error)
	// load loads a model in a process.
	load func(ctx context.Context, s backend.Spec, p *processOptions) (backend.Model, error)
	// read reads a model file in a process.
	read func(ctx context.Context, s backend.Spec, p *processOptions) (*modelconfig.Signature, error)
}

// processOptions are the options of the backend in a process.
type processOptions struct {
	Library  []string // paths; the first that can be opened is used
	Settings map[string]string
	Missing  string // the error text if none can be opened
}

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.AutoCompleter = (*Backend)(nil)
)

// Names are the backends' names, as in config.pbtxt.
func Names() []string { return []string{tensorFlow().name, openVINO().name} }

// New returns the backend with a name of Names. Errors: InvalidArg for another name.
func New(name string, o Options) (*Backend, error) {
	for _, f := range []framework{tensorFlow(), openVINO()} {
		if f.name == name {
			return &Backend{o: o, f: f}, nil
		}
	}
	return nil, status.Errorf(status.InvalidArg, "there is no framework %q", name)
}

// Name returns the backend's name: "tensorflow".
func (b *Backend) Name() string { return b.f.name }

// Traits implements backend.Backend.
func (b *Backend) Traits() backend.Traits { return backend.Traits{BatchIO: true} }

// Signature reads the inputs and outputs that a model file describes; nil: it describes none.
func (b *Backend) Signature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	if b.f.signature != nil {
		return b.f.signature(s, s.Log)
	}
	if _, err := modelPath(s); err != nil {
		return nil, err
	}
	o, err := b.processes(ctx, s)
	if err != nil {
		return nil, err
	}
	return isolation.Signature(ctx, s, o)
}

// Load starts a process that loads a model version.
func (b *Backend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if _, err := modelPath(s); err != nil {
		return nil, err
	}
	if err := refuse(s, b.f.name); err != nil {
		return nil, err
	}
	o, err := b.processes(ctx, s)
	if err != nil {
		return nil, err
	}
	m, err := isolation.Load(ctx, s, o)
	if err != nil {
		return nil, err // not a nil model in an interface
	}
	return m, nil
}

// processes returns how the processes of a model are started.
func (b *Backend) processes(ctx context.Context, s backend.Spec) (isolation.Options, error) {
	limits, err := process.Limits{}.Of(s.Config)
	if err != nil {
		return isolation.Options{}, err
	}
	own := processOptions{Library: b.find(ctx), Settings: b.o.Settings, Missing: b.missing(s.ModelName)}
	return isolation.Options{
		Launcher: b.o.Launcher, Command: b.o.Worker, Env: append(b.f.env[:len(b.f.env):len(b.f.env)], b.o.WorkerEnv...),
		EnvAt: visible, Runtime: b.f.title, Limits: limits,
		Backend: func(affinity.Policy) any { return own },
	}, nil
}

// ServeWorker is the main function of a process that executes an instance of a model of the framework with a name:
// "nereid worker tensorflow".
func ServeWorker(ctx context.Context, name string, log *slog.Logger) error {
	b, err := New(name, Options{})
	if err != nil {
		return err
	}
	return isolation.Serve(ctx, name, log, func(options json.RawMessage) (backend.Backend, error) {
		in := &inside{f: b.f}
		if err := json.Unmarshal(options, &in.o); err != nil {
			return nil, status.Errorf(status.Internal, "%w", err)
		}
		return in, nil
	})
}

// inside is the backend of a framework in a process.
type inside struct {
	f framework
	o processOptions
}

func (b *inside) Name() string { return b.f.name }

func (b *inside) Traits() backend.Traits { return backend.Traits{} }

func (b *inside) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	return b.f.load(ctx, s, &b.o)
}

func (b *inside) Signature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	return b.f.read(ctx, s, &b.o)
}
