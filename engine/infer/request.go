package infer

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// LatestVersion asks for the highest version that the model's version policy makes available.
const LatestVersion int64 = -1

// Flags of a request, with the values of Triton's TRITONSERVER_RequestFlag.
type Flags uint32

// The request flags.
const (
	SequenceStart Flags = 1 << iota
	SequenceEnd
)

// CorrelationID names a sequence: a number or, if Text is not empty, a string. The zero value: no sequence.
type CorrelationID struct {
	Number uint64
	Text   string
}

// String returns the ID as clients write it.
func (c CorrelationID) String() string {
	if c.Text != "" {
		return c.Text
	}
	return strconv.FormatUint(c.Number, 10)
}

// MaxCorrelationID is the longest text that names a sequence, in bytes.
const MaxCorrelationID = 128

// Check returns Unsupported for a text that is too long, in Triton's words.
func (c CorrelationID) Check() error {
	if len(c.Text) > MaxCorrelationID {
		return status.Errorf(status.Unsupported,
			"string correlation ID cannot be longer than %d characters", MaxCorrelationID)
	}
	return nil
}

// Clone returns an ID that does not use memory of a request.
func (c CorrelationID) Clone() CorrelationID {
	c.Text = strings.Clone(c.Text)
	return c
}

// IsZero reports whether there is no correlation ID.
func (c CorrelationID) IsZero() bool { return c.Number == 0 && c.Text == "" }

// RequestedOutput is an output that the caller asks for.
type RequestedOutput struct {
	Name string
	// Classification, if not 0, asks for the top K classes instead of the values. The front end computes them.
	Classification uint32
	// Binary is used by the front end only: the caller wants this output as binary data.
	Binary bool
	// Shared, if not nil, receives the output's bytes instead of the response. The front end writes them. The request
	// owns it and releases it.
	Shared SharedOutput
}

// SharedOutput is shared memory of the caller that receives an output.
type SharedOutput interface {
	Size() uint64         // in bytes
	Write(b []byte) error // at most Size bytes
	Release()             // called once, when the request ends
}

// DeviceOutput is a SharedOutput that may be in GPU memory.
type DeviceOutput interface {
	SharedOutput
	// Device returns the GPU memory, nil if it is host memory.
	Device() *tensor.Device
}

// Served is the model version that took a request.
type Served interface {
	Name() string
	Version() int64
	VersionText() string // the version in decimal
	Decoupled() bool
	Batched() bool // the first dimension of its tensors is the batch
	// Labels returns the class labels of an output, nil if it has none.
	Labels(output string) []string
}

// Sent counts the responses of a decoupled model's request. Only the statistics use it.
type Sent struct {
	N  int
	At Stamp // of the last one
}

// Request is one inference request. The caller fills Content, hands the request to the engine and reads its responses
// with Next. After that the caller must not change it.
type Request struct {
	Content
	Progress

	// Trace, if not nil, follows the request. The caller sets it.
	Trace Trace
	// Record, if not nil, notes what becomes of the request. The caller sets it, before it hands the request on.
	Record Record
	// Origin is set by a model that makes the request. It is nil for a client's request.
	Origin *Origin
	// Holds are set for the step of an ensemble: the versions that the ensemble's request holds. nil: it is no step.
	Holds []Hold
	// Client, if not nil, says that the goroutine that brings the request only waits for the response. It may then
	// execute the request itself, even if that blocks on another process (backend.Traits.WaitsInline). The context
	// ends when the client has disconnected. Code that blocks on this goroutine must watch it, since the goroutine
	// cannot call Cancel.
	Client context.Context //nolint:containedctx // it belongs to the request, which is handed on

	delivery
	ordered ordered
	memory
	cancel canceller
	stream stream
}

// Content is what the caller asks for. Strings and byte slices may be views of memory that the request owns: clone what
// must outlive the request.
type Content struct {
	ModelName string
	Version   int64 // LatestVersion unless the caller named one
	ID        string

	// Inputs are views of memory that the request owns (see Own) or that the garbage collector owns.
	Inputs []tensor.Tensor
	// Outputs are the requested outputs in the caller's order. None: all outputs of the model.
	Outputs    []RequestedOutput
	Parameters []Parameter

	Priority    uint64        // 0: the model's default level
	Timeout     time.Duration // in the queue; 0: the model's default
	Correlation CorrelationID
	Flags       Flags

	Uncached bool // the response cache does not answer it, and does not keep its response
	// Patient says that the reader of the responses may pause for any time: it is the server, or another process of it.
	Patient bool
	// Bounded says that the stream of a patient request does not grow: the reader lets it flow when it has to.
	Bounded bool
}

// Progress is what the engine notes about a request that it has admitted.
type Progress struct {
	Served    Served
	BatchSize int // rows; 1 for models without a batch dimension
	Times     Times
	Batch     *Batch // the batch that it runs in; nil before
	Place     Place  // in the scheduler's queue
	Ran       Ran    // the execution that gave the final response; only if the request is recorded
	Failed    error  // of the final response; nil: it succeeded
	Cache     CacheLookup
	Sent      Sent
	// Steps are the finished steps of an ensemble's request, in the order in which they ended. They are complete when
	// the final response has been read.
	Steps []StepTimes
	// States, if not nil, are the implicit states of its sequence: an execution sets the next ones.
	States *States
	// Raw says that the one input has only data: the model's configuration says its name, type and shape. Its type is
	// UINT8 until then.
	Raw bool
	// OnDevice says that inputs may be in GPU memory (tensor.Device), and that outputs may stay there.
	OnDevice bool
	// Null marks the stand-in for an empty slot of a sequence batch. Nobody reads its response.
	Null bool

	rescheduled bool // see Reschedule; used by the goroutine that executes the request
}

// delivery is what Respond needs.
type delivery struct {
	observer Observer
	answered atomic.Bool // the final response has been given
	first    Response    // storage of the first response, so that the usual request allocates none
	used     atomic.Bool // first is in use
}

// memory is what a request owns until its last reference is released.
type memory struct {
	owned []*tensor.Buffer
	kept  []*Request // see Keep
	dims  []int64    // storage for the inputs' shapes
	mark  mark
	refs  atomic.Int32
	pool  *sync.Pool // receives the request with its last release; nil: the garbage collector
}

var requests = sync.Pool{New: func() any { return newRequest() }}

func newRequest() *Request {
	r := &Request{}
	r.stream.init()
	return r
}

// New returns an empty request with one reference, which the caller holds. Its slices may have spare capacity.
func New() *Request {
	r := requests.Get().(*Request)
	r.Version = LatestVersion
	r.pool = &requests
	r.refs.Store(1)
	return r
}

// NewDetached is New without the pool of requests. Tests with a fake clock need it, because a channel belongs to one
// synctest bubble.
func NewDetached() *Request {
	r := newRequest()
	r.Version = LatestVersion
	r.refs.Store(1)
	return r
}

// Own gives the caller's reference on b to the request, which releases it at its end. Inputs are views of such buffers.
func (r *Request) Own(b *tensor.Buffer) { r.owned = append(r.owned, b) }

// Keep retains another request until r ends, because r's strings and inputs are views of memory that it owns.
func (r *Request) Keep(other *Request) { r.kept = append(r.kept, other.Retain()) }

// Dims returns n zeroed numbers for an input's shape. They are valid as long as the request.
func (r *Request) Dims(n int) []int64 {
	at := len(r.dims)
	r.dims = append(r.dims, make([]int64, n)...)
	return r.dims[at : at+n : at+n]
}

// Retain takes another reference on the request and returns it.
func (r *Request) Retain() *Request {
	if r.refs.Add(1) <= 1 {
		panic("infer: Retain of a released request")
	}
	return r
}

// Release drops a reference. The last one also releases unread responses and the input buffers.
func (r *Request) Release() {
	switch n := r.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("infer: Release of a released request")
	}
	r.stream.drain()
	if r.Record != nil {
		r.Record.Released(r)
	}
	r.reset()
	if r.pool != nil {
		r.pool.Put(r)
	}
}

func (r *Request) reset() {
	for _, b := range r.owned {
		b.Release()
	}
	for i := range r.Outputs {
		if s := r.Outputs[i].Shared; s != nil {
			s.Release()
		}
	}
	for _, other := range r.kept {
		other.Release()
	}
	clear(r.owned)
	clear(r.kept)
	r.owned, r.kept, r.dims, r.mark = r.owned[:0], r.kept[:0], r.dims[:0], mark{}
	c := &r.Content
	clear(c.Inputs)
	clear(c.Outputs)
	clear(c.Parameters)
	r.Content = Content{Inputs: c.Inputs[:0], Outputs: c.Outputs[:0], Parameters: c.Parameters[:0]}
	r.Progress = Progress{Steps: r.Steps[:0]}
	r.Trace, r.Record, r.Origin, r.Holds, r.Client = nil, nil, nil, nil, nil
	r.observer, r.ordered = nil, ordered{held: r.ordered.held[:0]}
	r.answered.Store(false)
	r.used.Store(false)
	r.first.reset()
	r.cancel.reset()
	r.stream.reset()
}

// Observe sets the observer. The engine calls it once, before it queues the request.
func (r *Request) Observe(o Observer) { r.observer = o }

// Input returns the input with a name, nil if there is none.
func (r *Request) Input(name string) *tensor.Tensor {
	for i := range r.Inputs {
		if r.Inputs[i].Name == name {
			return &r.Inputs[i]
		}
	}
	return nil
}

// Wants reports whether the caller asked for an output: by name, or for all.
func (r *Request) Wants(output string) bool {
	if len(r.Outputs) == 0 {
		return !r.Null
	}
	return r.Requested(output) != nil
}

// Requested returns the requested output with a name, nil if the caller did not name it.
func (r *Request) Requested(output string) *RequestedOutput {
	for i := range r.Outputs {
		if r.Outputs[i].Name == output {
			return &r.Outputs[i]
		}
	}
	return nil
}
