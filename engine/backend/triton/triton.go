package triton

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/inferencepb"
	"nereid/engine/metrics/custom"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
	"nereid/engine/worker"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// Processes say how processes of models are started.
type Processes struct {
	Launcher *worker.Launcher
	// Worker is the command, which must call ServeWorker. WorkerEnv is added to this program's environment.
	Worker, WorkerEnv []string
	// Metrics takes the metrics that libraries make. nil: they cannot make metrics.
	Metrics *custom.Registry
}

// Backend runs the models of one library.
type Backend struct {
	name, library string
	o             *Options
}

var (
	_ backend.Backend         = (*Backend)(nil)
	_ backend.ConfigCompleter = (*Backend)(nil)
	_ backend.GroupPlacer     = (*Backend)(nil)
	_ backend.GPUUser         = (*Backend)(nil)
)

// Name returns the backend's name: "identity" for libtriton_identity.so.
func (b *Backend) Name() string { return b.name }

// Traits implements backend.Backend. Libraries make batch inputs themselves, if at all.
func (b *Backend) Traits() backend.Traits {
	return backend.Traits{ParallelInstances: true, IgnoresExtras: true, ImplicitState: true}
}

// UsesGPUs implements backend.GPUUser: libraries may use GPUs by themselves.
func (b *Backend) UsesGPUs() bool { return true }

// Load starts a process that loads a model version.
func (b *Backend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	o, err := b.processes(s)
	if err != nil {
		return nil, err
	}
	m, err := isolation.Load(ctx, s, o)
	if err != nil {
		return nil, err // not a nil model in an interface
	}
	return m, nil
}

// CompleteConfig lets the library complete the configuration, in a process.
func (b *Backend) CompleteConfig(ctx context.Context, s backend.Spec) error {
	o, err := b.processes(s)
	if err != nil {
		return err
	}
	return isolation.CompleteConfig(ctx, s, o)
}

// PlaceGroups asks the library, in a process, which groups it prefers, unless the configuration leaves nothing open.
func (b *Backend) PlaceGroups(ctx context.Context, s backend.Spec) error {
	if len(s.Config.InstanceGroup) > 0 && !slices.ContainsFunc(s.Config.InstanceGroup, leavesOpen) {
		return nil
	}
	o, err := b.processes(s)
	if err != nil {
		return err
	}
	return isolation.PlaceGroups(ctx, s, o)
}

// leavesOpen reports whether a preferred group may change a group.
func leavesOpen(g *inferencepb.ModelInstanceGroup) bool {
	return g.Count < 1 || g.Kind != inferencepb.ModelInstanceGroup_KIND_CPU && len(g.Gpus) == 0
}

// processOptions describe the library to a process.
type processOptions struct {
	Name, Library string
	Settings      map[string]string
	Levels        frames.Levels     // of the server's log, when the process starts
	Policy        map[string]string // the settings of its host policy
}

// processes returns how the processes of a model are started.
func (b *Backend) processes(s backend.Spec) (isolation.Options, error) {
	if s.Config.GetModelTransactionPolicy().GetDecoupled() && len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return isolation.Options{}, status.Errorf(status.Unsupported, "model '%s' is decoupled and has implicit "+
			"states; remove sequence_batching.state, and let the backend library keep its states", s.ModelName)
	}
	settings := map[string]string{}
	maps.Copy(settings, b.o.Settings[""])
	maps.Copy(settings, b.o.Settings[b.name])
	limits, err := limitsOf(settings, s.Config)
	if err != nil {
		return isolation.Options{}, err
	}
	own := processOptions{Name: b.name, Library: b.library, Settings: settings}
	outputs := &worker.Outputs{Types: map[string]tensor.DataType{}}
	for _, out := range s.Config.GetOutput() {
		outputs.Types[out.GetName()] = tensor.DataType(out.GetDataType())
	}
	return isolation.Options{
		Launcher: b.o.Launcher, Command: b.o.Worker, Env: b.o.WorkerEnv, EnvAt: visible,
		Runtime: filepath.Base(b.library), Limits: limits, Outputs: outputs, Calls: true,
		Metrics: b.o.Metrics,
		Backend: func(policy affinity.Policy) any {
			now := own
			now.Levels, now.Policy = frames.LevelsOf(s.Log), policy.Settings()
			return now
		},
	}, nil
}

// limitsOf returns the limits of a model's processes: those of its parameters, else those of the backend's settings.
func limitsOf(settings map[string]string, cfg *inferencepb.ModelConfig) (l process.Limits, err error) {
	for key, value := range settings {
		if _, err := l.Set(key, value); err != nil {
			return l, status.Errorf(status.InvalidArg, "--backend-config=%s,%s: %w", cfg.GetBackend(), key, err)
		}
	}
	return l.Of(cfg)
}

// visible returns the environment variables that hide all GPUs from instances on the CPU. Other instances see all of
// them, because they get the number of theirs.
func visible(p backend.Placement) []string {
	if p.Kind == inferencepb.ModelInstanceGroup_KIND_CPU {
		return []string{"CUDA_VISIBLE_DEVICES=-1"}
	}
	return nil
}

// WorkerName is the argument of "nereid worker" for the processes of this package.
const WorkerName = "triton"

// ServeWorker is the main function of a process: "nereid worker triton".
func ServeWorker(ctx context.Context, log *slog.Logger) error {
	runtime.LockOSThread() // a library is called on one thread, as in Triton
	return isolation.Serve(ctx, "triton", log, func(options json.RawMessage) (backend.Backend, error) {
		return newInside(options)
	})
}
