package onnxruntime

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/backend/batchio"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/gpumem"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// model is one loaded version.
type model struct {
	library  *capi.Library
	spec     backend.Spec
	path     string
	settings *Settings
	mode     threading
	run      map[string]string // run options
	info     *onnxfile.Info
	cache    string         // folder of optimized graphs, or ""
	runtime  string         // folder where the user may install another onnxruntime, or ""
	memory   *gpumem.Memory // of GPUs; nil: tensors go through ordinary memory
	fakeGPU  string         // see Backend
	inputs   []port         // the inputs of the model that the configuration lists
	outputs  []port
	batched  bool // max_batch_size is above 0
	share    bool // instances share sessions
	fillAll  bool // see Backend

	pool    tensor.Pool    // memory of small outputs and of strings
	strings *tensor.Budget // of ONNX Runtime's strings; see Options.Memory
	values  valueBuffers

	mu       sync.Mutex
	sessions map[place]openSession         // guarded by mu: the shared sessions
	initial  *capi.Session                 // guarded by mu: made by newModel; the first instance on a CPU uses it
	all      map[*capi.Session]place       // guarded by mu: the open sessions
	rows     map[*capi.Session]*steadyRows // guarded by mu: of the sessions whose runs are filled up
}

// place is where a session runs.
type place struct {
	gpu    bool
	device int
	policy string // affinity.Policy.String; "": the session's threads may run on any core
}

// openSession makes a session in its first call and returns the same one in each.
type openSession func() (*capi.Session, error)

// port is an input or an output.
type port struct {
	name       string
	dt         tensor.DataType
	code       int     // ONNXTensorElementDataType
	scalar     bool    // the model's tensor has no dimensions
	dims       []int64 // the configured shape of a scalar output without reshape
	optional   bool
	ragged     bool            // an input whose requests are concatenated in one dimension
	batchInput *batchio.Input  // nil: the input comes from the requests
	split      *batchio.Output // an output that is split by the shape of an input; nil: by rows
	state      bool            // an output that is the next state of the sequence
	hidden     bool            // a state that the configuration does not list as an output
	known      []int64         // an output's shape if the model file declares it, except for the batch dimension
	rowSize    int64           // bytes of an output of known shape, of one row if the model batches; 0: not known
}

func newPort(io *capi.IO) port {
	return port{name: io.Name, dt: elementType(io.Type), code: io.Type, scalar: len(io.Dims) == 0}
}

// maxKnownSize bounds rowSize, in bytes, so that its product with a number of rows does not overflow.
const maxKnownSize = 1 << 31

// measure sets known and rowSize if the model file declares the output's shape.
func (p *port) measure(io *capi.IO, batched bool) {
	dims := io.Dims
	if batched {
		if len(dims) == 0 || dims[0] != -1 {
			return
		}
		dims = dims[1:]
	}
	n := int64(p.dt.Size()) // 0 for strings
	for _, d := range dims {
		if d <= 0 || d > maxKnownSize {
			return
		}
		if n *= d; n > maxKnownSize {
			return
		}
	}
	p.known, p.rowSize = io.Dims, n
}

func newModel(ctx context.Context, l *capi.Library, s backend.Spec, path string, info *onnxfile.Info, b *Backend,
	mode threading) (*model, error) {
	m := &model{
		library: l, spec: s, path: path, settings: &b.o.Settings, info: info, runtime: b.o.RuntimeFolder,
		memory: b.o.GPUMemory, strings: b.o.Memory, fakeGPU: b.fakeGPU, cache: b.o.graphs(), mode: mode,
		batched: s.Config.GetMaxBatchSize() > 0,
		share:   mode != own || sharesSession(s.Config),
		run:     runOptions(s.Config), sessions: map[place]openSession{}, all: map[*capi.Session]place{},
		rows: map[*capi.Session]*steadyRows{}, fillAll: b.fillAll,
	}
	var session *capi.Session
	var err error
	if gpusOnly(s.Config) { // no instance will use this session
		session, err = inspectionSession(ctx, l, s, path, mode, m.settings)
	} else {
		session, err = m.newSession(ctx, place{}, nil)
	}
	if err != nil {
		return nil, err
	}
	sig, err := readSignature(session)
	if err == nil {
		err = sig.checkConfig(s)
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	m.setPorts(sig)
	if gpusOnly(s.Config) {
		session.Close()
		return m, nil
	}
	m.initial = session
	m.all[session] = place{}
	return m, nil
}

// gpusOnly reports whether all instances of a model are on GPUs.
func gpusOnly(c *inferencepb.ModelConfig) bool {
	for _, g := range c.GetInstanceGroup() {
		if g.GetKind() != inferencepb.ModelInstanceGroup_KIND_GPU {
			return false
		}
	}
	return len(c.GetInstanceGroup()) > 0
}

func sharesSession(c *inferencepb.ModelConfig) bool {
	v := c.GetParameters()["share_session_between_instances"].GetStringValue()
	return v == "1" || strings.EqualFold(v, "true")
}

// sequenceInputs returns the inputs that the sequence batcher adds: controls and states.
func sequenceInputs(c *inferencepb.ModelConfig) []string {
	var all []string
	for _, in := range c.GetSequenceBatching().GetControlInput() {
		all = append(all, in.GetName())
	}
	for _, st := range c.GetSequenceBatching().GetState() {
		all = append(all, st.GetInputName())
	}
	return all
}

// setPorts sets inputs, in the model's order, and outputs, in the configuration's. States are outputs too: the
// configuration need not list them.
func (m *model) setPorts(sig *signature) {
	plan := batchio.New(m.spec.Config)
	configured := sequenceInputs(m.spec.Config)
	for _, in := range m.spec.Config.GetInput() {
		configured = append(configured, in.GetName())
	}
	for i := range sig.inputs {
		p := newPort(&sig.inputs[i])
		p.optional, p.ragged, p.batchInput = sig.optional[i], plan.Ragged(p.name), plan.Input(p.name)
		if p.batchInput != nil || slices.Contains(configured, p.name) {
			m.inputs = append(m.inputs, p)
		}
	}
	for _, out := range m.spec.Config.GetOutput() {
		io := find(sig.outputs, out.GetName())
		p := newPort(io)
		p.split = plan.Output(io.Name)
		if p.scalar && out.GetReshape() == nil {
			p.dims = out.GetDims()
		}
		if p.split == nil {
			p.measure(io, m.batched)
		}
		m.outputs = append(m.outputs, p)
	}
	for _, st := range m.spec.Config.GetSequenceBatching().GetState() {
		i := slices.IndexFunc(m.outputs, func(p port) bool { return p.name == st.GetOutputName() })
		if i < 0 {
			i = len(m.outputs)
			m.outputs = append(m.outputs, newPort(find(sig.outputs, st.GetOutputName())))
			m.outputs[i].hidden = true
		}
		m.outputs[i].state = true
	}
}

// optionsAt returns the options of a session for a place. The caller closes them.
func (m *model) optionsAt(p place, cores []int) (*sessionOptions, error) {
	mode := pinned(m.mode, m.settings, cores)
	o, err := newSessionOptions(m.spec, mode, m.settings)
	if err != nil {
		return nil, err
	}
	if m.fakeGPU != "" {
		p.gpu = false
	}
	err = o.providers(m.library, m.spec, p, m.runtime)
	if err == nil {
		err = o.pin(m.spec, mode, cores)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// newSession makes a session for a place. Its own threads run on cores; nil: on any.
func (m *model) newSession(ctx context.Context, p place, cores []int) (*capi.Session, error) {
	cached, err := m.cachesGraph(p)
	if err != nil {
		return nil, err
	}
	o, err := m.optionsAt(p, cores)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if cached {
		return m.cachedSession(ctx, o, p, cores)
	}
	return o.newSession(ctx, m.library, m.path)
}

// closeSession closes the session of a single instance.
func (m *model) closeSession(s *capi.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, s)
	delete(m.rows, s)
	s.Close()
}

// Traits implements backend.Model. A run only computes and never blocks.
func (m *model) Traits() backend.Traits { return backend.Traits{RunsInline: true} }

// MemoryBytes implements backend.MemoryReporter: the memory of the allocators of all sessions. It is -1 if that is less
// than half of the file of a model on a CPU: weights that were rewritten for the processor are in no allocator.
func (m *model) MemoryBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	total, onCPU := int64(0), false
	for s, where := range m.all {
		onCPU = onCPU || !where.gpu
		n, err := s.Memory()
		if err != nil {
			m.spec.Log.Debug("onnxruntime does not tell a session's memory", "model", m.spec.ModelName, "err", err)
		}
		total += n
	}
	if f, err := os.Stat(m.path); err == nil && onCPU && total < f.Size()/2 {
		return -1
	}
	return total
}

// DeviceMemoryBytes implements backend.DeviceMemoryReporter: the memory of the sessions' allocators, by GPU. It returns
// nil for TensorRT models, because TensorRT allocates without them.
func (m *model) DeviceMemoryBytes() map[int]int64 {
	if _, rt, err := gpuOptions(m.spec.Config, 0); err != nil || rt != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	total := map[int]int64{}
	for s, where := range m.all {
		if !where.gpu {
			continue
		}
		n, err := s.DeviceMemory(where.device)
		if err != nil || n == 0 {
			m.spec.Log.Debug("onnxruntime does not tell a session's memory of a GPU", "model", m.spec.ModelName, "gpu",
				where.device, "err", err)
			return nil // a partial sum would be misleading
		}
		total[where.device] += n
	}
	return total
}

// NewInstance implements backend.Model. Instances of a model without thread counts share one session per place.
func (m *model) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	where := place{}
	switch p.Kind {
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		where = place{gpu: true, device: p.Device}
	case inferencepb.ModelInstanceGroup_KIND_CPU,
		inferencepb.ModelInstanceGroup_KIND_MODEL: // an ONNX model names no device
	default:
		return nil, status.Errorf(status.InvalidArg,
			"instance %s is of kind %s; onnxruntime supports KIND_CPU, KIND_GPU and KIND_MODEL", p.Name, p.Kind)
	}
	where.policy = p.Affinity.String()
	session, owned, err := m.session(ctx, where, p.Affinity.Cores)
	if err != nil {
		return nil, err
	}
	inst, err := newInstance(m, session, where, p.Affinity.Nodes)
	if err != nil {
		if owned {
			m.closeSession(session)
		}
		return nil, err
	}
	if owned {
		inst.owned = session
	}
	return inst, nil
}

// session returns a session for a place. It reports whether the session belongs to the instance alone.
func (m *model) session(ctx context.Context, where place, cores []int) (*capi.Session, bool, error) {
	if !m.share {
		s, err := m.openSession(ctx, where, cores)
		return s, true, err
	}
	m.mu.Lock()
	open := m.sessions[where]
	if open == nil {
		open = sync.OnceValues(func() (*capi.Session, error) { return m.openSession(ctx, where, cores) })
		m.sessions[where] = open
	}
	m.mu.Unlock()
	s, err := open()
	return s, false, err
}

// openSession makes a session for a place, or returns the model's initial one. After a failure the next instance tries
// again.
func (m *model) openSession(ctx context.Context, where place, cores []int) (*capi.Session, error) {
	m.mu.Lock()
	s := m.initial
	m.initial = nil
	if s != nil && where != (place{}) { // the initial session is for any core
		delete(m.all, s)
		s.Close()
		s = nil
	}
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := m.newSession(ctx, where, cores)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.sessions, where)
		return nil, err
	}
	m.all[s] = where
	return s, nil
}

// Close frees the sessions. Responses that are still being read keep their own memory.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.all {
		s.Close()
	}
	m.sessions, m.initial, m.all = nil, nil, nil
	capi.TrimClosed()
	return nil
}
