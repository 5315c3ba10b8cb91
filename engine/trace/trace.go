package trace

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// The names of time stamps are Triton's.
const (
	HTTPRecvStart     = "HTTP_RECV_START"
	HTTPRecvEnd       = "HTTP_RECV_END"
	HTTPSendStart     = "HTTP_SEND_START"
	HTTPSendEnd       = "HTTP_SEND_END"
	GRPCWaitReadStart = "GRPC_WAITREAD_START"
	GRPCWaitReadEnd   = "GRPC_WAITREAD_END"
	GRPCSendStart     = "GRPC_SEND_START"
	GRPCSendEnd       = "GRPC_SEND_END"
)

// Trace is the timeline of one sampled request. The methods of a nil Trace do nothing.
type Trace struct {
	tracer  *Tracer
	setting *setting
	id      uint64
	parent  *Trace // nil: the request came from a client
	root    *Trace
	context Parent
	spans   *spans // nil: the trace goes to a file

	// users of a root: the front end, and the admitted requests, its own and its children's, without a final response.
	users atomic.Int32

	mu       sync.Mutex // that of the root guards the rest, also of the children
	model    string
	version  int64
	request  string // the request's ID
	admitted bool
	ended    bool
	failed   string
	marks    []mark
	custom   int // marks of backends
	tensors  []activity
	copied   int64
	children []*Trace // of a root: all descendants
}

type mark struct {
	name   string
	at     infer.Stamp
	custom bool // of a backend
}

// maxActivities is the number of activities of backends that a request's trace holds. Others are dropped.
const maxActivities = 1024

// activity is a tensor that a request carried.
type activity struct {
	name   string // TENSOR_QUEUE_INPUT, …
	tensor tensor.Tensor
}

var _ infer.ActivityTrace = (*Trace)(nil)

// ID returns the number of the trace.
func (tr *Trace) ID() uint64 { return tr.id }

// Mark records a time stamp. name is one of the constants.
func (tr *Trace) Mark(name string, at infer.Stamp) {
	if tr == nil || at == 0 {
		return
	}
	tr.root.mu.Lock()
	defer tr.root.mu.Unlock()
	tr.marks = append(tr.marks, mark{name: name, at: at})
}

// Activity implements infer.ActivityTrace.
func (tr *Trace) Activity(name string, at infer.Stamp) {
	tr.root.mu.Lock()
	defer tr.root.mu.Unlock()
	if tr.ended || !tr.admitted || tr.custom == maxActivities || tr.setting.Level&Timestamps == 0 {
		return
	}
	tr.custom++
	tr.marks = append(tr.marks, mark{name: strings.Clone(name), at: at, custom: true})
}

// End ends the front end's use of the trace. It is written when the engine's use has ended too.
func (tr *Trace) End() {
	if tr != nil {
		tr.release()
	}
}

func (tr *Trace) release() {
	if tr.root.users.Add(-1) == 0 {
		tr.tracer.submit(tr.root)
	}
}

// use adds a user to a root that is not written yet. false: it is.
func (tr *Trace) use() bool {
	for n := tr.users.Load(); n > 0; n = tr.users.Load() {
		if tr.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Asked notes what the client asked for, which is all that is known of a request that is refused before it is admitted.
func (tr *Trace) Asked(version int64, id string) {
	if tr == nil {
		return
	}
	tr.root.mu.Lock()
	defer tr.root.mu.Unlock()
	tr.version, tr.request = version, strings.Clone(id)
}

// Admitted implements infer.Trace. A request whose model had to be loaded may be admitted after its root was written:
// the request of the root does not wait for it. Then it is not followed.
func (tr *Trace) Admitted(r *infer.Request) {
	if !tr.root.use() {
		return
	}
	tr.root.mu.Lock()
	defer tr.root.mu.Unlock()
	if tr.parent != nil {
		tr.root.children = append(tr.root.children, tr)
	}
	tr.admitted = true
	tr.model, tr.version, tr.request = strings.Clone(r.ModelName), r.Version, strings.Clone(r.ID)
	if r.Served != nil { // with namespaces, a step's request names the model's repository too
		tr.model, tr.version = r.Served.Name(), r.Served.Version()
	}
	if tr.setting.Level&Tensors != 0 {
		tr.keep(infer.TensorQueueInput, r.Inputs)
	}
}

// KeepsTensors reports whether the trace copies the tensors of its requests, which must then be in the host's memory.
func (tr *Trace) KeepsTensors() bool {
	return tr.setting.Level&Tensors != 0 && tr.setting.Mode == ModeTriton
}

// keep copies tensors. The root's lock is held.
func (tr *Trace) keep(name string, list []tensor.Tensor) {
	if tr.setting.Mode != ModeTriton {
		return // as in Triton, spans have no tensors
	}
	for i := range list {
		in := &list[i]
		n := int64(len(in.Data))
		if tr.tracer.bytes.Add(n) > tensorBudget {
			tr.tracer.bytes.Add(-n)
			tr.tracer.lost.Add(1)
			continue
		}
		tr.copied += n
		tr.tensors = append(tr.tensors, activity{name, tensor.Tensor{
			Name: strings.Clone(in.Name), DataType: in.DataType, Shape: slices.Clone(in.Shape),
			Data: slices.Clone(in.Data),
		}})
	}
}

// Responded implements infer.Trace.
func (tr *Trace) Responded(r *infer.Request, resp *infer.Response) {
	tr.root.mu.Lock()
	if tr.ended || !tr.admitted {
		tr.root.mu.Unlock()
		return
	}
	if tr.setting.Level&Tensors != 0 {
		tr.keep(infer.TensorBackendOutput, resp.Outputs)
	}
	if !resp.Final {
		tr.marks = append(tr.marks, mark{name: infer.ResponseComplete, at: infer.Now()})
		tr.root.mu.Unlock()
		return
	}
	tr.ended = true
	if resp.Err != nil {
		tr.failed = resp.Err.Error()
	}
	tr.stamp(r)
	tr.root.mu.Unlock()
	tr.release()
}

// stamp adds the time stamps of the engine. The root's lock is held.
func (tr *Trace) stamp(r *infer.Request) {
	r.Timeline(func(name string, at infer.Stamp) { tr.marks = append(tr.marks, mark{name: name, at: at}) })
	if r.Executed() {
		for _, a := range tr.tensors {
			if a.name == infer.TensorQueueInput { // the backend was given the same
				tr.tensors = append(tr.tensors, activity{infer.TensorBackendInput, a.tensor})
			}
		}
	}
	if tr.custom > 0 { // they were recorded before those of the engine
		slices.SortStableFunc(tr.marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	}
}

// Child implements infer.Trace. The child belongs to the trace when its request is admitted.
func (tr *Trace) Child() infer.Trace {
	return &Trace{
		tracer: tr.tracer, setting: tr.setting, id: tr.tracer.ids.Add(1), parent: tr, root: tr.root,
		version: infer.LatestVersion, spans: tr.spans.child(),
	}
}

// at returns the first mark of a name, 0 if there is none.
func (tr *Trace) at(name string) infer.Stamp {
	for _, m := range tr.marks {
		if m.name == name {
			return m.at
		}
	}
	return 0
}
