package onnxruntime

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/affinity"
	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/worker"
)

// isolationParameter is the model parameter that asks for a process for each instance, by the value "process".
const isolationParameter = "isolation"

// finalizeGrace is how long a process may take to end when its model is unloaded.
const finalizeGrace = 10 * time.Second

// isolated reports whether a configuration asks for processes of its own.
func isolated(c *inferencepb.ModelConfig) (bool, error) {
	switch v := c.GetParameters()[isolationParameter].GetStringValue(); v {
	case "", "none":
		return false, nil
	case "process":
		return true, nil
	default:
		return false, status.Errorf(status.InvalidArg, "parameter \"isolation\" is %q, want \"process\", or \"none\" for the server's own", v)
	}
}

// isolatedModel is a model whose instances run in processes of their own: a fault of the file or of the runtime costs
// the instance alone, and all its memory goes with the process.
type isolatedModel struct {
	b    *Backend
	spec backend.Spec
	load loadCall
	log  *slog.Logger

	mu      sync.Mutex
	spare   *worker.Worker   // guarded by mu: has loaded the model, until an instance takes it
	keepers []*worker.Keeper // guarded by mu
}

var (
	_ backend.Health         = (*isolatedModel)(nil)
	_ backend.MemoryReporter = (*isolatedModel)(nil)
)

// loadCall is what a process is told to load.
type loadCall struct {
	Config        []byte // the protocol buffer
	ModelName     string
	Version       int64
	ModelFolder   string
	VersionFolder string
	Library       string // libonnxruntime
	RuntimeFolder string
	Threads       int
	Settings      Settings
}

// members are the members of a call's message.
func (c *loadCall) members() map[string]any { return map[string]any{"load": c} }

// newIsolated starts a process and has it load the model.
func (b *Backend) newIsolated(ctx context.Context, s backend.Spec) (*isolatedModel, error) {
	m, err := b.isolatedModel(s)
	if err != nil {
		return nil, err
	}
	if m.spare, err = m.start(ctx, s.ModelName, affinity.Policy{}); err != nil {
		return nil, err
	}
	return m, nil
}

func (b *Backend) isolatedModel(s backend.Spec) (*isolatedModel, error) {
	if b.o.Launcher == nil || len(b.o.Worker) == 0 {
		return nil, status.Errorf(status.Unsupported, "model '%s' asks for a process of its own, which this program cannot start; take the parameter \"isolation\" out", s.ModelName)
	}
	if len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return nil, status.Errorf(status.Unsupported, "model '%s' has sequence_batching state and asks for a process of its own; take the parameter \"isolation\" out", s.ModelName)
	}
	library, err := b.locate()
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	config, err := proto.Marshal(s.Config)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	return &isolatedModel{b: b, spec: s, log: s.Log, load: loadCall{
		Config: config, ModelName: s.ModelName, Version: s.Version, ModelFolder: s.ModelFolder, VersionFolder: s.VersionFolder,
		Library: library, RuntimeFolder: b.o.RuntimeFolder, Threads: b.o.Threads, Settings: b.o.Settings,
	}}, nil
}

// locate returns the path of the library that processes open, and unpacks it once.
func (b *Backend) locate() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		return b.path, nil
	}
	if b.found == "" {
		path, err := b.o.findLibrary(embedded)
		if err != nil {
			return "", err
		}
		b.found = path
	}
	return b.found, nil
}

// signature has a process read the model's signature.
func (b *Backend) isolatedSignature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	m, err := b.isolatedModel(s)
	if err != nil {
		return nil, err
	}
	w, err := m.spawn(ctx, s.ModelName, affinity.Policy{})
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	var sig modelconfig.Signature
	if err := w.Call(ctx, "signature", m.load.members(), &sig); err != nil {
		return nil, m.explain(w, err)
	}
	return &sig, nil
}

func (m *isolatedModel) spawn(ctx context.Context, name string, keep affinity.Policy) (*worker.Worker, error) {
	return m.b.o.Launcher.Start(ctx, worker.Spec{
		Affinity: keep,
		Name:     name, ModelName: m.spec.ModelName, Version: m.spec.Version, Command: m.b.o.Worker, Env: m.b.o.WorkerEnv,
		Log: m.log.With("instance", name),
	})
}

// start starts a process that has loaded the model.
func (m *isolatedModel) start(ctx context.Context, name string, keep affinity.Policy) (*worker.Worker, error) {
	w, err := m.spawn(ctx, name, keep)
	if err != nil {
		return nil, err
	}
	call := m.load
	if keep.Cores != nil && !call.Settings.GlobalThreadPool {
		call.Threads = len(keep.Cores) // the pool is the process's, which has these cores alone
	}
	if err := w.Call(ctx, "load", call.members(), nil); err != nil {
		defer w.Kill()
		return nil, m.explain(w, err)
	}
	return w, nil
}

// explain says of a process that ended over a model that the model is why.
func (m *isolatedModel) explain(w *worker.Worker, err error) error {
	if w.Err() == nil {
		return err
	}
	return status.Errorf(status.InvalidArg, "model '%s' ended its process while ONNX Runtime was loading it: the file is damaged, or made to do harm, or an operator library failed. %w", m.spec.ModelName, err)
}

// NewInstance makes an instance in a process of its own.
func (m *isolatedModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	start := func(ctx context.Context) (*worker.Worker, error) {
		w, err := m.claim(ctx, p)
		if err != nil {
			return nil, err
		}
		w.Configure(p.Name, false, nil)
		if err := w.Call(ctx, "instance", map[string]any{"placement": p}, nil); err != nil {
			w.Kill()
			return nil, err
		}
		return w, nil
	}
	first, err := start(ctx)
	if err != nil {
		return nil, err
	}
	x := &isolatedInstance{Keeper: worker.Keep(p.Name, m.log, finalizeGrace, first, start), m: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepers = append(m.keepers, x.Keeper)
	return x, nil
}

// claim returns a process that has loaded the model and nobody else has. A host policy holds from a process's start on.
func (m *isolatedModel) claim(ctx context.Context, p backend.Placement) (*worker.Worker, error) {
	m.mu.Lock()
	w := m.spare
	m.spare = nil
	m.mu.Unlock()
	if w != nil {
		if w.Err() == nil && !p.Affinity.Restricts() {
			return w, nil
		}
		w.Kill()
	}
	return m.start(ctx, p.Name, p.Affinity)
}

// Healthy returns nil if an instance takes requests.
func (m *isolatedModel) Healthy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	for _, k := range m.keepers {
		s := k.State()
		if s.Err == nil {
			return nil
		}
		if err == nil {
			err = s.Err
		}
	}
	return err
}

// InOwnProcess implements backend.Separate.
func (m *isolatedModel) InOwnProcess() bool { return true }

// MemoryBytes returns the resident memory of the processes.
func (m *isolatedModel) MemoryBytes() (total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keepers {
		if w := k.Worker(); w != nil {
			total += w.ResidentBytes()
		}
	}
	if m.spare != nil {
		total += m.spare.ResidentBytes()
	}
	return total
}

// Close ends the process that no instance has taken.
func (m *isolatedModel) Close() error {
	m.mu.Lock()
	w := m.spare
	m.spare = nil
	m.mu.Unlock()
	if w != nil {
		w.Kill()
	}
	return nil
}

// isolatedInstance is one process, again and again.
type isolatedInstance struct {
	*worker.Keeper
	m *isolatedModel
}

// Close ends the process.
func (x *isolatedInstance) Close() error {
	err := x.Keeper.Close()
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.m.keepers = slices.DeleteFunc(x.m.keepers, func(k *worker.Keeper) bool { return k == x.Keeper })
	return err
}

// withoutIsolation is a configuration as the process itself loads it.
func withoutIsolation(c *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	delete(c.Parameters, isolationParameter)
	return c
}
