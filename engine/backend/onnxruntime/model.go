package onnxruntime

import (
	"context"
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
	cache    string         // where optimized graphs are kept, "" for nowhere
	runtime  string         // where the user may put another onnxruntime, "" for nowhere
	memory   *gpumem.Memory // of GPUs; nil: tensors reach them from the host's
	pretend  string         // tests: see Backend
	inputs   []port         // those of the model that the configuration lists
	outputs  []port
	batched  bool // max_batch_size is above 0
	share    bool // instances share sessions

	pool tensor.Pool // memory of small outputs and of strings
	kept keptPool    // buffers around ONNX Runtime's memory

	mu       sync.Mutex
	sessions map[place]*shared       // guarded by mu
	spare    *capi.Session           // guarded by mu: the first one made, until an instance takes it
	all      map[*capi.Session]place // guarded by mu: every open session, and where it runs
}

// place is where a session's kernels run.
type place struct {
	gpu    bool
	device int
	policy string // affinity.Policy.String; "": the session's threads may run anywhere
}

// shared is a session of several instances.
type shared struct {
	ready   chan struct{} // closed when the rest is set
	session *capi.Session
	err     error
}

// port is an input or an output.
type port struct {
	name     string
	dt       tensor.DataType
	code     int     // ONNXTensorElementDataType
	scalar   bool    // the model's tensor has no dimensions
	dims     []int64 // the configured shape of a scalar output that is not reshaped
	optional bool
	ragged   bool            // an input whose requests are put together in one dimension
	made     *batchio.Input  // a batch input: no request has it
	cut      *batchio.Output // an output that is dealt out by the shape of an input; nil: by rows
	state    bool            // an output that is the sequence's next state
	hidden   bool            // an output that no answer has: the configuration lists it as a state only
	whole    []int64         // an output's shape where the file tells, but for the batch
	each     int64           // its bytes, in a batching model those of a row; 0: not known
}

// mostKnown bounds the sizes that are noted, in bytes, so that products with a number of rows do not wrap.
const mostKnown = 1 << 31

// measure notes an output's shape and size, where the file tells.
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
		if d <= 0 || d > mostKnown {
			return
		}
		if n *= d; n > mostKnown {
			return
		}
	}
	p.whole, p.each = io.Dims, n
}

func newModel(ctx context.Context, l *capi.Library, s backend.Spec, path string, info *onnxfile.Info, b *Backend,
	mode threading) (*model, error) {
	m := &model{
		library: l, spec: s, path: path, settings: &b.o.Settings, info: info, runtime: b.o.RuntimeFolder,
		memory: b.o.GPUMemory, pretend: b.pretend, cache: b.o.graphs(), mode: mode,
		batched: s.Config.GetMaxBatchSize() > 0,
		share:   mode != own || sharesSession(s.Config),
		run:     runOptions(s.Config), sessions: map[place]*shared{}, all: map[*capi.Session]place{},
	}
	read := m.newSession
	if gpusOnly(s.Config) { // the session is for the signature alone: it need not be made well
		read = m.readingSession
	}
	session, err := read(ctx, place{}, nil)
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
	m.ports(sig)
	if gpusOnly(s.Config) {
		session.Close()
		return m, nil
	}
	m.spare = session
	m.all[session] = place{}
	return m, nil
}

// gpusOnly reports whether all of a model's instances are for GPUs.
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

// sequenceInputs are the inputs that the sequence batcher gives: controls and states.
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

// batchInputs are the inputs that the backend makes for each batch.
func batchInputs(c *inferencepb.ModelConfig) []string {
	var all []string
	for _, b := range c.GetBatchInput() {
		all = append(all, b.GetTargetName()...)
	}
	return all
}

// ports notes the model's inputs that are given, in the model's order, and the outputs that the configuration lists.
func (m *model) ports(sig *signature) {
	plan := batchio.New(m.spec.Config)
	given := sequenceInputs(m.spec.Config)
	for _, in := range m.spec.Config.GetInput() {
		given = append(given, in.GetName())
	}
	for i := range sig.inputs {
		io := &sig.inputs[i]
		made := plan.Input(io.Name)
		if made != nil || slices.Contains(given, io.Name) {
			m.inputs = append(m.inputs, port{
				name: io.Name, dt: elementType(io.Type), code: io.Type, scalar: len(io.Dims) == 0,
				optional: sig.optional[i],
				ragged:   plan.Ragged(io.Name), made: made,
			})
		}
	}
	for _, out := range m.spec.Config.GetOutput() {
		io := find(sig.outputs, out.GetName())
		p := port{name: io.Name, dt: elementType(io.Type), code: io.Type, scalar: len(io.Dims) == 0,
			cut: plan.Output(io.Name)}
		if p.scalar && out.GetReshape() == nil {
			p.dims = out.GetDims()
		}
		if p.cut == nil {
			p.measure(io, m.batched)
		}
		m.outputs = append(m.outputs, p)
	}
	m.stateOutputs(sig)
}

// stateOutputs notes the outputs that are states. The configuration may list them as outputs too.
func (m *model) stateOutputs(sig *signature) {
	for _, st := range m.spec.Config.GetSequenceBatching().GetState() {
		i := slices.IndexFunc(m.outputs, func(p port) bool { return p.name == st.GetOutputName() })
		if i < 0 {
			io := find(sig.outputs, st.GetOutputName())
			m.outputs = append(m.outputs, port{name: io.Name, dt: elementType(io.Type), code: io.Type,
				scalar: len(io.Dims) == 0, hidden: true})
			i = len(m.outputs) - 1
		}
		m.outputs[i].state = true
	}
}

// optionsAt returns the options of a session at a place.
func (m *model) optionsAt(p place, cores []int) (*sessionOptions, error) {
	mode := pinned(m.mode, m.settings, cores)
	o, err := newSessionOptions(m.spec, mode, m.settings)
	if err != nil {
		return nil, err
	}
	if m.pretend != "" {
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

// newSession makes a session at a place whose threads keep to cores; nil: to none.
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

// readingSession makes a session that can be asked for its signature and is not to run.
func (m *model) readingSession(ctx context.Context, _ place, _ []int) (*capi.Session, error) {
	o, err := newSessionOptions(m.spec, m.mode, m.settings)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.forReading(); err != nil {
		return nil, err
	}
	return o.newSession(ctx, m.library, m.path)
}

// closeSession closes a session that is not shared.
func (m *model) closeSession(s *capi.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, s)
	s.Close()
}

// Traits implements backend.Model. A run only computes, in this process.
func (m *model) Traits() backend.Traits { return backend.Traits{RunsInline: true} }

// MemoryBytes asks the allocators of the model's sessions.
func (m *model) MemoryBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := int64(0)
	for s := range m.all {
		n, err := s.Memory()
		if err != nil {
			m.spec.Log.Debug("onnxruntime does not tell a session's memory", "model", m.spec.ModelName, "err", err)
		}
		total += n
	}
	return total
}

// DeviceMemoryBytes implements backend.DeviceMemoryReporter: it asks the sessions' allocators. What TensorRT takes is
// not among theirs, so that nothing is told of its models.
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
			return nil // a part would look like the whole
		}
		total[where.device] += n
	}
	return total
}

// NewInstance makes an instance. Instances without thread counts of their own share one session per place.
func (m *model) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	where := place{}
	switch p.Kind {
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		where = place{gpu: true, device: p.Device}
	case inferencepb.ModelInstanceGroup_KIND_CPU,
		inferencepb.ModelInstanceGroup_KIND_MODEL: // the model names no device
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

// session returns a session for a place, and whether it is the instance's own.
func (m *model) session(ctx context.Context, where place, cores []int) (*capi.Session, bool, error) {
	m.mu.Lock()
	if m.share {
		if e := m.sessions[where]; e != nil {
			m.mu.Unlock()
			<-e.ready
			return e.session, false, e.err
		}
	}
	e := &shared{ready: make(chan struct{})}
	defer close(e.ready)
	if m.share {
		m.sessions[where] = e
	}
	e.session = m.spare
	m.spare = nil
	if where != (place{}) && e.session != nil { // it was made to look at the model, for any core
		delete(m.all, e.session)
		e.session.Close()
		e.session = nil
	}
	m.mu.Unlock()
	if e.session == nil {
		e.session, e.err = m.newSession(ctx, where, cores)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.err != nil {
		delete(m.sessions, where)
		return nil, false, e.err
	}
	m.all[e.session] = where
	return e.session, !m.share, nil
}

// Close frees the sessions. Responses that are still being read keep their own memory.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.all {
		s.Close()
	}
	m.sessions, m.spare, m.all = nil, nil, nil
	capi.Trim()
	return nil
}
