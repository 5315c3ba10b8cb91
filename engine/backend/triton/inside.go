package triton

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/backend/triton/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// inside is a backend library in its process, which has one model and one instance of it.
type inside struct {
	o     processOptions
	peer  *worker.Peer
	own   *inferencepb.ModelConfig // as the server has it
	b     *capi.Backend
	wake  chan struct{} // capacity 1
	needs dependencies
	// normal is what the defaults of a configuration depend on, with the groups that the library prefers.
	normal modelconfig.NormalizeOptions

	requests requests
}

var (
	_ backend.Backend         = (*inside)(nil)
	_ backend.ConfigCompleter = (*inside)(nil)
	_ backend.GroupPlacer     = (*inside)(nil)
	_ isolation.PeerUser      = (*inside)(nil)
	_ capi.Host               = (*inside)(nil)
	_ capi.Tracer             = (*inside)(nil)
)

func newInside(options json.RawMessage) (*inside, error) {
	in := &inside{wake: make(chan struct{}, 1)}
	in.requests.open = map[uint64]*pending{}
	if err := json.Unmarshal(options, &in.o); err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	return in, nil
}

// UsePeer implements isolation.PeerUser.
func (in *inside) UsePeer(p *worker.Peer) {
	in.peer, in.requests.report = p, p.Report
	p.SetLevels(in.o.Levels)
}

// Name returns the backend's name.
func (in *inside) Name() string { return in.o.Name }

// Traits implements backend.Backend.
func (in *inside) Traits() backend.Traits { return backend.Traits{} }

// open opens the library and initializes the backend.
func (in *inside) open(s backend.Spec) error {
	in.own = s.Config
	needs, err := dependenciesOf(in.o.Library)
	if err != nil {
		return err
	}
	if err := needs.check(in.o.Library, capi.GlibcVersion()); err != nil {
		return err
	}
	in.needs = needs
	capi.SetHost(in)
	go func() { // ends with the process
		for range in.wake {
			in.requests.handleEvents()
		}
	}()
	l, err := capi.Open(in.o.Library, needs.api)
	if err != nil {
		return err
	}
	settings, err := json.Marshal(map[string]any{"cmdline": in.o.Settings})
	if err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	if in.b, err = capi.NewBackend(l, in.o.Name, filepath.Dir(in.o.Library), string(settings)); err != nil {
		return err
	}
	in.normal = modelconfig.NormalizeOptions{GPUs: s.GPUs, PreferredGroups: in.b.Preferred()}
	return nil
}

// start opens the library and initializes the backend and the model. completes: the backend may complete the
// configuration.
func (in *inside) start(s backend.Spec, completes bool) (*capi.Model, error) {
	if err := in.open(s); err != nil {
		return nil, err
	}
	whole := in.normalized(s.Config)
	var states []capi.State
	for _, st := range s.Config.GetSequenceBatching().GetState() {
		state := capi.State{Output: st.GetOutputName()}
		if st.GetUseSameBufferForInputOutput() {
			state.Input = st.GetInputName()
		}
		states = append(states, state)
	}
	return in.b.NewModel(capi.Setup{Name: s.ModelName, Folder: s.ModelFolder, Version: s.Version,
		Config: string(modelconfig.MarshalJSON(whole)), Completes: completes, States: states})
}

// Load implements backend.Backend.
func (in *inside) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	m, err := in.start(s, false)
	if err != nil {
		return nil, err
	}
	return &model{in: in, c: m, spec: s}, nil
}

// CompleteConfig lets the library complete the configuration. The process is of no other use then.
func (in *inside) CompleteConfig(_ context.Context, s backend.Spec) error {
	m, err := in.start(s, true)
	if err != nil {
		return err
	}
	text := m.Config()
	if err := errors.Join(m.Close(), in.b.Close()); err != nil {
		s.Log.Warn("a backend failed to finalize after it had completed a configuration", "err", err)
	}
	if text != nil {
		if err := replace(s.Config, text); err != nil {
			return err
		}
	}
	s.Config.InstanceGroup = in.normalized(s.Config).InstanceGroup
	return nil
}

// PlaceGroups implements backend.GroupPlacer. The process is of no other use then.
func (in *inside) PlaceGroups(_ context.Context, s backend.Spec) error {
	if err := in.open(s); err != nil {
		return err
	}
	s.Config.InstanceGroup = in.normalized(s.Config).InstanceGroup
	if err := in.b.Close(); err != nil {
		s.Log.Warn("a backend failed to finalize after it had said which instance groups it prefers", "err", err)
	}
	return nil
}

// normalized returns a copy of a configuration with all defaults.
func (in *inside) normalized(cfg *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	whole := proto.Clone(cfg).(*inferencepb.ModelConfig)
	modelconfig.Normalize(whole, in.normal)
	return whole
}

// replace replaces cfg by what the library has set, except for what a library may not change.
func replace(cfg *inferencepb.ModelConfig, text []byte) error {
	next, _, faults := modelconfig.ParseJSON("TRITONBACKEND_ModelSetConfig", text)
	if err := faults.Err(); err != nil {
		return err
	}
	next.Name, next.Backend, next.Platform = cfg.Name, cfg.Backend, cfg.Platform
	next.VersionPolicy, next.DefaultModelFilename = cfg.VersionPolicy, cfg.DefaultModelFilename
	next.InstanceGroup = cfg.InstanceGroup // it was normalized for the library only
	proto.Reset(cfg)
	proto.Merge(cfg, next)
	return nil
}

// Wake implements capi.Host.
func (in *inside) Wake() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Reserve implements capi.Host.
func (in *inside) Reserve(n int) *tensor.Buffer { return in.peer.Reserve(n) }

// Normalize implements capi.Host.
func (in *inside) Normalize(config []byte) ([]byte, error) {
	next := proto.Clone(in.own).(*inferencepb.ModelConfig)
	if err := replace(next, config); err != nil {
		return nil, err
	}
	return modelconfig.MarshalJSON(in.normalized(next)), nil
}

// Log implements capi.Host.
func (in *inside) Log(level slog.Level, file string, line int, text string) {
	if in.Logs(level) {
		in.peer.Log(level, filepath.Base(file), line, text)
	}
}

// Logs implements capi.Host.
func (in *inside) Logs(level slog.Level) bool { return in.peer.Levels().Has(level) }

// model is the model of the process.
type model struct {
	in   *inside
	c    *capi.Model
	spec backend.Spec

	mu   sync.Mutex
	inst *instance // guarded by mu
}

var (
	_ backend.Model     = (*model)(nil)
	_ backend.Readiness = (*model)(nil)
)

// NewInstance implements backend.Model.
func (m *model) NewInstance(_ context.Context, p backend.Placement) (backend.Instance, error) {
	policy, err := json.Marshal(map[string]any{p.HostPolicy: m.in.o.Policy})
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	var outputs []string
	for _, o := range m.spec.Config.GetOutput() {
		outputs = append(outputs, o.GetName())
	}
	c, err := m.c.NewInstance(capi.Place{Name: p.Name, Kind: p.Kind, Device: p.Device, Passive: p.Passive,
		Policy: string(policy), Profiles: p.Profiles, Secondary: p.SecondaryDevices,
		Outputs: outputs})
	if err != nil {
		return nil, err
	}
	m.in.requests.decoupled = m.spec.Config.GetModelTransactionPolicy().GetDecoupled()
	x := &instance{c: c, requests: &m.in.requests, batched: m.spec.Config.GetMaxBatchSize() > 0}
	m.mu.Lock()
	m.inst = x
	m.mu.Unlock()
	return x, nil
}

// Ready implements backend.Readiness with the library's own function, if it has one.
func (m *model) Ready(context.Context) error {
	m.mu.Lock()
	x := m.inst
	m.mu.Unlock()
	if x == nil {
		return nil
	}
	return x.c.Ready()
}

// Traits implements backend.Model. As in Triton, the execution policy does not hold for models with sequences.
func (m *model) Traits() backend.Traits {
	return backend.Traits{ReportsExecutions: m.in.needs.executions, ReportsResponses: m.in.needs.responses,
		SaysReady:      m.in.b.SaysReady(),
		DeviceBlocking: m.in.b.DeviceBlocking() && m.spec.Config.GetSequenceBatching() == nil}
}

// Close finalizes the model and the backend.
func (m *model) Close() error { return errors.Join(m.c.Close(), m.in.b.Close()) }
