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

// LatestVersion asks for the version that the model's version policy ranks highest.
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
		return status.Errorf(status.Unsupported, "string correlation ID cannot be longer than %d characters", MaxCorrelationID)
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

// RequestedOutput is an output that the caller wants.
type RequestedOutput struct {
	Name string
	// Classification, if not 0, asks for the top K classes in place of the values. The front end makes them.
	Classification uint32
	// Binary is the front end's own note: the caller wants this output as binary data.
	Binary bool
	// Shared, if not nil, is where the output's bytes go in place of the response. The front end writes them; the request
	// owns it from here on.
	Shared SharedOutput
}

// SharedOutput is memory of the caller's that an output goes to.
type SharedOutput interface {
	Size() uint64         // in bytes
	Write(b []byte) error // at most Size bytes
	Release()             // called once, with the request's last reference
}

// DeviceOutput is a SharedOutput that may be on a GPU.
type DeviceOutput interface {
	SharedOutput
	// Device returns where, of Size bytes; nil: it is not on a GPU.
	Device() *tensor.Device
}

// RegionOutput is a SharedOutput that may be in a client's region.
type RegionOutput interface {
	SharedOutput
	// Over reports whether it has bytes in common with memory in a region.
	Over(d *tensor.Device) bool
}

// Served is the model version that took a request.
type Served interface {
	Name() string
	Version() int64
	VersionText() string // the version in decimal
	Decoupled() bool
	// Labels returns the class labels of an output, nil if it has none.
	Labels(output string) []string
}

// Place is where a request waits in its scheduler. Only that scheduler looks at it, under its own lock.
type Place struct {
	Next, Prev *Request
	Deadline   Stamp // when the wait is too long; 0: never
	Heap       int   // index among the deadlines, from 1; 0: it has none
	Level      int   // index of its priority level
	State      uint8 // the scheduler's; 0: it does not wait
}

// Queue is what a request waits in.
type Queue interface {
	// Cancelled is called by Cancel, on its goroutine, without a lock: the queue takes the request out if it still has
	// it. The caller holds a reference.
	Cancelled(r *Request)
}

// Observer hears of a request's end before the caller does, so that a caller who got its answer finds itself counted.
type Observer interface {
	// Finished is called once, with the final response, on the goroutine that responds. It must not block.
	Finished(r *Request, resp *Response)
}

// StreamObserver is an Observer that hears of every response before the final one too.
type StreamObserver interface {
	// Streamed is called for each of them, on the goroutine that responds. It must not block.
	Streamed(r *Request, resp *Response)
}

// Sent is what the responses of a decoupled model's request have been so far. It belongs to the statistics.
type Sent struct {
	N  int
	At Stamp // of the last one
}

// Request is one inference request. The caller fills the exported fields, hands the request to the engine and reads
// its responses with Next. After hand-over the caller must not change it. Its strings and byte slices may be views of
// memory that it owns: whoever keeps one beyond the request's life clones it.
type Request struct {
	ModelName string
	Version   int64 // LatestVersion unless the caller named one
	ID        string

	// Inputs are views of memory that the request owns (see Own) or that the garbage collector does.
	Inputs []tensor.Tensor
	// Outputs the caller wants, in its order; none: all of the model's.
	Outputs    []RequestedOutput
	Parameters []Parameter

	Priority    uint64        // 0: the model's default level
	Timeout     time.Duration // in the queue; 0: the model's default
	Correlation CorrelationID
	Flags       Flags

	// Set by the engine when it admits the request.
	Served    Served
	BatchSize int // rows; 1 for models without a batch dimension
	Times     Times
	Batch     *Batch // the batch that it runs in; nil before
	Place     Place  // where it waits
	Cache     CacheNote
	Sent      Sent
	// States, if not nil, are the implicit states of its sequence: an execution sets the next ones.
	States *States
	// OnDevice says that inputs may be, and outputs may be left, in memory of GPUs (tensor.Device).
	OnDevice bool
	// Null marks the stand-in for an empty slot of a sequence batch: nobody reads its answer.
	Null bool
	// Trace, if not nil, follows the request. Who makes the request sets it.
	Trace Trace
	// Origin is set by a model that makes the request; nil: a client made it.
	Origin *Origin
	// Client, if not nil, says that the goroutine that brings the request has nothing else to do until it is answered, so
	// that it may execute it even if that means to wait for another process (backend.Waiter). It ends when the client is
	// gone; who waits on that goroutine has to look, for it cannot call Cancel then.
	Client context.Context //nolint:containedctx // it belongs to the request, which is handed on

	observer Observer
	order    *Order      // who says when a response may go; nil: at once
	held     []*Response // guarded by order's lock: responses whose turn has not come
	answered atomic.Bool // the final response has been given
	again    bool        // it is to be executed again; of the goroutine that executes it
	mark     mark

	// Steps are the finished steps of an ensemble's request, in the order in which they ended. They are complete when
	// the final response has been read.
	Steps []StepTimes

	owned  []*tensor.Buffer
	kept   []*Request // see Keep
	dims   []int64    // storage for the inputs' shapes
	refs   atomic.Int32
	pool   *sync.Pool // where it goes with its last reference; nil: to the garbage collector
	cancel canceller
	stream stream
	first  Response // storage of the first response, so that the usual request allocates none
	used   atomic.Bool
}

var requests = sync.Pool{New: func() any { return newRequest() }}

func newRequest() *Request {
	r := &Request{}
	r.stream.init()
	return r
}

// New returns an empty request with one reference, the caller's. Its slices may have spare capacity.
func New() *Request {
	r := requests.Get().(*Request)
	r.Version = LatestVersion
	r.pool = &requests
	r.refs.Store(1)
	return r
}

// NewDetached is New for a request whose memory is not shared with others before or after, as tests on a fake clock
// need it (a channel belongs to one synctest bubble).
func NewDetached() *Request {
	r := newRequest()
	r.Version = LatestVersion
	r.refs.Store(1)
	return r
}

// Own hands the caller's reference on b to the request: it lives as long as the request does. Inputs are views of it.
func (r *Request) Own(b *tensor.Buffer) { r.owned = append(r.owned, b) }

// Keep holds another request until r is gone: r's strings and inputs may be views of what that one owns.
func (r *Request) Keep(other *Request) { r.kept = append(r.kept, other.Retain()) }

// Dims returns n zeroed numbers for an input's shape, from storage that lives as long as the request.
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

// Release drops a reference. With the last one unread responses and the input buffers go too.
func (r *Request) Release() {
	switch n := r.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("infer: Release of a released request")
	}
	r.stream.drain()
	r.reset()
	if r.pool != nil {
		r.pool.Put(r)
	}
}

func (r *Request) reset() {
	for i, b := range r.owned {
		b.Release()
		r.owned[i] = nil
	}
	for i := range r.Outputs {
		if s := r.Outputs[i].Shared; s != nil {
			s.Release()
		}
	}
	for i, other := range r.kept {
		other.Release()
		r.kept[i] = nil
	}
	clear(r.Inputs)
	clear(r.Outputs)
	clear(r.Parameters)
	r.ModelName, r.ID = "", ""
	r.Inputs, r.Outputs, r.Parameters, r.owned = r.Inputs[:0], r.Outputs[:0], r.Parameters[:0], r.owned[:0]
	r.dims, r.kept, r.Steps = r.dims[:0], r.kept[:0], r.Steps[:0]
	r.Priority, r.Timeout, r.Correlation, r.Flags = 0, 0, CorrelationID{}, 0
	r.Served, r.BatchSize, r.Times, r.Batch, r.Trace, r.Origin, r.Client, r.observer = nil, 0, Times{}, nil, nil, nil, nil, nil
	r.Place, r.order, r.held = Place{}, nil, r.held[:0]
	r.Sent = Sent{}
	r.Cache, r.States, r.OnDevice, r.Null, r.again, r.mark = CacheNote{}, nil, false, false, false, mark{}
	r.answered.Store(false)
	r.used.Store(false)
	r.first.reset()
	r.cancel.reset()
	r.stream.reset()
}

// Observe sets who hears of the request's end. The engine calls it once, before it queues the request.
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

// Requested returns what the caller said of an output that it asked for by name; nil: it did not.
func (r *Request) Requested(output string) *RequestedOutput {
	for i := range r.Outputs {
		if r.Outputs[i].Name == output {
			return &r.Outputs[i]
		}
	}
	return nil
}
