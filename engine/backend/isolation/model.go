package isolation

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/metrics/custom"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/worker"
	"nereid/engine/worker/process"
)

// finalizeTimeout is how long a process may take to end when its model is unloaded, before it is killed.
const finalizeTimeout = 10 * time.Second

// Options say how a model's processes are started and what they load.
type Options struct {
	Launcher *worker.Launcher
	// Command is the program and its arguments, which must call Serve. Env is added to the environment; see
	// worker.Spec.
	Command, Env []string
	// EnvAt returns what is added to the environment of an instance's process beside Env; only the kind and the
	// device of the placement count. Nil: nothing.
	EnvAt func(backend.Placement) []string
	// Backend returns the options of the backend in a process, which gets them as JSON. The process has the host
	// policy.
	Backend func(affinity.Policy) any
	// Runtime is the library's name, for the error of a process that ends while it loads: "ONNX Runtime".
	Runtime string
	// Limits bound what each process takes.
	Limits process.Limits
	// Calls says that the processes may ask the server for other models, and, if Metrics is not nil, for metrics.
	Calls   bool
	Metrics *custom.Registry
	// Outputs are those of the model's configuration. nil: they are not checked.
	Outputs *worker.Outputs
}

// Model is a model whose instances run in one process each.
type Model struct {
	o    Options
	spec backend.Spec
	load loadCall
	log  *slog.Logger

	spareEnv []string       // of the spare process
	traits   backend.Traits // of the model in its first process

	Supervisors
	mu    sync.Mutex
	spare *started // guarded by mu: has loaded the model for the first instance; nil: it is taken
}

// started is a process and what answers its calls; calls is nil if it may make none.
type started struct {
	*worker.Worker
	calls *Caller
}

// kill ends the process.
func (s *started) kill() {
	s.Kill()
	if s.calls != nil {
		s.calls.Close()
	}
}

var (
	_ backend.Model           = (*Model)(nil)
	_ backend.Health          = (*Model)(nil)
	_ backend.Readiness       = (*Model)(nil)
	_ backend.MemoryReporter  = (*Model)(nil)
	_ backend.ProcessReporter = (*Model)(nil)
)

// loadCall says what a process loads.
type loadCall struct {
	Config        []byte // the ModelConfig, as a protocol buffer
	ModelName     string
	Version       int64
	ModelFolder   string
	VersionFolder string
	GPUs          []int32
	Backend       json.RawMessage
}

// call makes a process load the model, or read its signature.
func (m *Model) call(ctx context.Context, w *worker.Worker, op string, keep affinity.Policy, into any) error {
	own, err := json.Marshal(m.o.Backend(keep))
	if err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	c := m.load
	c.Backend = own
	if err := w.Call(ctx, op, map[string]any{"load": c}, into); err != nil {
		return m.explain(w, err)
	}
	return nil
}

func newModel(s backend.Spec, o Options) (*Model, error) {
	config, err := proto.Marshal(s.Config)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return &Model{o: o, spec: s, log: s.Log, Supervisors: Supervisors{
		Suspects: o.Launcher.NewSuspects(s.ModelName, s.Log),
	}, load: loadCall{
		Config: config, ModelName: s.ModelName, Version: s.Version, ModelFolder: s.ModelFolder,
		VersionFolder: s.VersionFolder, GPUs: s.GPUs,
	}}, nil
}

// Load starts a process and loads the model in it. Errors: those of the backend in the process, InvalidArg when the
// process ends meanwhile, those of Launcher.Start.
func Load(ctx context.Context, s backend.Spec, o Options) (*Model, error) {
	m, err := newModel(s, o)
	if err != nil {
		return nil, err
	}
	first := firstPlacement(s.Config)
	m.spareEnv = m.envAt(first)
	if m.spare, err = m.start(ctx, s.ModelName, first, nil, &m.traits); err != nil {
		return nil, err
	}
	m.traits.OwnProcess = true
	return m, nil
}

// firstPlacement returns where the first instance of a model runs.
func firstPlacement(c *inferencepb.ModelConfig) backend.Placement {
	p := backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU}
	if groups := c.GetInstanceGroup(); len(groups) > 0 {
		p.Kind = groups[0].GetKind()
		if gpus := groups[0].GetGpus(); len(gpus) > 0 {
			p.Device = int(gpus[0])
		}
	}
	return p
}

func (m *Model) envAt(p backend.Placement) []string {
	if m.o.EnvAt == nil {
		return nil
	}
	return m.o.EnvAt(p)
}

// Signature reads the model's signature in a process, with the backend.AutoCompleter of its backend.
func Signature(ctx context.Context, s backend.Spec, o Options) (*modelconfig.Signature, error) {
	m, err := newModel(s, o)
	if err != nil {
		return nil, err
	}
	w, err := m.spawn(ctx, s.ModelName, backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU}, nil)
	if err != nil {
		return nil, err
	}
	defer w.kill()
	var sig modelconfig.Signature
	if err := m.call(ctx, w.Worker, "signature", affinity.Policy{}, &sig); err != nil {
		return nil, err
	}
	return &sig, nil
}

// CompleteConfig changes the configuration to what the backend.ConfigCompleter of the backend in a process makes of it.
func CompleteConfig(ctx context.Context, s backend.Spec, o Options) error {
	return changeConfig(ctx, s, o, "complete")
}

// PlaceGroups changes the configuration to what the backend.GroupPlacer of the backend in a process makes of it.
func PlaceGroups(ctx context.Context, s backend.Spec, o Options) error {
	return changeConfig(ctx, s, o, "place")
}

func changeConfig(ctx context.Context, s backend.Spec, o Options, op string) error {
	m, err := newModel(s, o)
	if err != nil {
		return err
	}
	w, err := m.spawn(ctx, s.ModelName, firstPlacement(s.Config), nil)
	if err != nil {
		return err
	}
	defer w.kill()
	var reply struct{ Config []byte }
	if err := m.call(ctx, w.Worker, op, affinity.Policy{}, &reply); err != nil {
		return err
	}
	if err := w.Worker.Close(ctx); err != nil {
		m.log.Warn("the process that completed a configuration did not end well", "model", s.ModelName, "err", err)
	}
	next := &inferencepb.ModelConfig{}
	if err := proto.Unmarshal(reply.Config, next); err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	proto.Reset(s.Config)
	proto.Merge(s.Config, next)
	return nil
}

// spawn starts a process, with a new caller if calls is nil and the process may make calls.
func (m *Model) spawn(ctx context.Context, name string, p backend.Placement, calls *Caller) (*started, error) {
	spec := worker.Spec{
		Name: name, ModelName: m.spec.ModelName, Version: m.spec.Version, Command: m.o.Command,
		Env: slices.Concat(m.o.Env, m.envAt(p)), Affinity: p.Affinity, Limits: m.o.Limits,
		Reported: m.spec.Reported, Log: m.log.With("instance", name),
	}
	if m.o.Calls {
		if calls == nil {
			calls = NewCaller(m.spec.Host, m.o.Metrics)
		}
		spec.Caller = calls
	}
	w, err := m.o.Launcher.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &started{w, calls}, nil
}

// start starts a process for a placement and loads the model in it. traits, if not nil, becomes the model's.
func (m *Model) start(ctx context.Context, name string, p backend.Placement, calls *Caller,
	traits *backend.Traits) (*started, error) {
	w, err := m.spawn(ctx, name, p, calls)
	if err != nil {
		return nil, err
	}
	var reply struct{ Traits backend.Traits }
	if err := m.call(ctx, w.Worker, "load", p.Affinity, &reply); err != nil {
		w.kill()
		return nil, err
	}
	if traits != nil {
		*traits = reply.Traits
	}
	return w, nil
}

// explain adds the likely reason to the error of a process that ended while it loaded the model.
func (m *Model) explain(w *worker.Worker, err error) error {
	if w.Err() == nil {
		return err
	}
	return status.Errorf(status.InvalidArg,
		"model '%s' crashed its process while %s was loading it: the file is damaged, "+
			"or made to do harm, or an operator library failed. %w", m.spec.ModelName, m.o.Runtime, err)
}

// Traits implements backend.Model.
func (m *Model) Traits() backend.Traits { return m.traits }

// Ready implements backend.Readiness. Each instance that takes requests is asked if the model in its process decides
// that itself. One that executes is ready: it could not reply before its execution is over.
func (m *Model) Ready(ctx context.Context) error {
	if !m.traits.SaysReady {
		return nil
	}
	for _, x := range m.Working() {
		w := x.Worker()
		if w == nil {
			return x.State().Err
		}
		if w.Executing() {
			continue
		}
		if _, err := w.IsReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// NewInstance makes an instance in a new process, or in the spare one.
func (m *Model) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	w, err := m.loaded(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := m.makeInstance(ctx, w, p); err != nil {
		return nil, err
	}
	x := &instance{m: m, calls: w.calls}
	x.Supervisor = worker.Supervise(worker.Supervision{
		Name: p.Name, Passive: p.Passive, Grace: finalizeTimeout, Suspects: m.Suspects, Log: m.log,
		Notify: m.spec.Notify(p.Name),
	}, w.Worker, func(ctx context.Context) (*worker.Worker, error) { return m.restart(ctx, p, x.calls) })
	m.Add(x.Supervisor)
	return x, nil
}

// makeInstance makes the instance in a process that has loaded the model. An error ends the process.
func (m *Model) makeInstance(ctx context.Context, w *started, p backend.Placement) error {
	w.Configure(p.Name, p.Passive, m.spec.Config.GetModelTransactionPolicy().GetDecoupled(), m.o.Outputs)
	if err := w.Call(ctx, "instance", map[string]any{"placement": p}, nil); err != nil {
		err = m.explain(w.Worker, err)
		w.kill()
		return err
	}
	return nil
}

// restart starts the process of an instance again.
func (m *Model) restart(ctx context.Context, p backend.Placement, calls *Caller) (*worker.Worker, error) {
	if calls != nil {
		calls.Reset()
	}
	w, err := m.start(ctx, p.Name, p, calls, nil)
	if err != nil {
		return nil, err
	}
	if err := m.makeInstance(ctx, w, p); err != nil {
		return nil, err
	}
	return w.Worker, nil
}

// loaded returns a process that has loaded the model and has no instance. The spare one fits only if it was started
// with the same environment and host policy.
func (m *Model) loaded(ctx context.Context, p backend.Placement) (*started, error) {
	if w := m.takeSpare(); w != nil {
		if w.Err() == nil && !p.Affinity.Restricts() && slices.Equal(m.envAt(p), m.spareEnv) {
			return w, nil
		}
		w.kill()
	}
	return m.start(ctx, p.Name, p, nil, nil)
}

// takeSpare returns the spare process, which is the caller's then; nil: there is none.
func (m *Model) takeSpare() *started {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.spare
	m.spare = nil
	return w
}

// MemoryBytes returns the resident memory of all processes in bytes.
func (m *Model) MemoryBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.Supervisors.MemoryBytes()
	if m.spare != nil {
		total += m.spare.ResidentBytes()
	}
	return total
}

// Close ends the spare process, if there is one.
func (m *Model) Close() error {
	if w := m.takeSpare(); w != nil {
		w.kill()
	}
	return nil
}

// instance is one process, again and again.
type instance struct {
	*worker.Supervisor
	m     *Model
	calls *Caller // nil: the process makes none
}

// Close ends the process.
func (x *instance) Close() error {
	err := x.Supervisor.Close()
	if x.calls != nil {
		x.calls.Close()
	}
	x.m.Remove(x.Supervisor)
	return err
}
