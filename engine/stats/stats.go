package stats

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// Total is a count of events and the sum of their durations, as in inference.StatisticDuration.
type Total struct {
	Count uint64
	Ns    uint64
}

func (t *Total) add(d time.Duration) {
	t.Count++
	t.Ns += uint64(d)
}

// Reason is why a request failed, as in the label of nv_inference_request_failure.
type Reason uint8

// The reasons, in the order in which Triton prints them.
const (
	Other Reason = iota
	BackendFailure
	Canceled
	Rejected

	NumReasons
)

// String returns the label value.
func (r Reason) String() string {
	return [...]string{"OTHER", "BACKEND", "CANCELED", "REJECTED"}[r]
}

// Batch holds the statistics of the executions of one batch size.
type Batch struct {
	Size                 uint64
	Input, Infer, Output Total
}

// Response holds the statistics of the responses of a decoupled model at one place in their streams. The times are
// those since the previous response, or for the first since the start of the execution.
type Response struct {
	Infer, Output                Total
	Success, Fail, Empty, Cancel Total
}

// MaxResponses is the number of places of a stream that have statistics.
const MaxResponses = 1024

// Counters are the numbers of one model version since its epoch began. Times are sums over requests, in Batches sums
// over executions.
type Counters struct {
	LastInference time.Time // end of the last success; zero: none
	Inferences    uint64    // rows of the successes that were executed
	Executions    uint64

	Success, Fail               Total // total time in the server
	Queue, Input, Infer, Output Total
	CacheHit, CacheMiss         Total
	Failures                    [NumReasons]uint64
	InputBytes                  uint64
	Batches                     []Batch    // by size, ascending
	Responses                   []Response // by place in the stream; of decoupled models
	Latency                     Histogram
}

// Snapshot is a copy of a version's counters.
type Snapshot struct {
	Model   string
	Version int64
	// Epoch changes when the counters start again from zero.
	Epoch uint64
	// Pending is the number of requests that are waiting for execution.
	Pending int64
	// Cached reports whether the version uses the response cache.
	Cached bool
	// Tags are the labels that the model's configuration adds to its metrics: name, value, name, value, sorted by name.
	// They must not be changed.
	Tags []string
	// LoadTime is how long the version's last load took.
	LoadTime time.Duration
	Counters
}

// Version counts what happens to one model version. Its methods are safe for concurrent use.
type Version struct {
	model   string
	version int64
	epoch   uint64
	pending atomic.Int64
	direct  atomic.Bool
	cached  atomic.Bool
	tags    atomic.Pointer[[]string]
	load    atomic.Int64 // nanoseconds

	keep     Detail
	activity *activity // of the registry

	mu     sync.Mutex
	c      Counters // guarded by mu
	detail *detail  // guarded by mu; nil: only sums are kept
	// reports says which of these the backend reports, so that they are not counted here. Guarded by mu.
	reports struct{ executions, responses bool }
}

// Admitted counts a request that has joined the queue.
func (v *Version) Admitted() {
	v.pending.Add(1)
	v.activity.note()
}

// Pending returns the number of requests in the queue.
func (v *Version) Pending() int64 { return v.pending.Load() }

// SetDirect says whether the version has no queue, so that snapshots have no pending requests: those of an ensemble
// wait in the queues of its steps.
func (v *Version) SetDirect(on bool) { v.direct.Store(on) }

// Left counts n requests that have left the queue.
func (v *Version) Left(n int) { v.pending.Add(int64(-n)) }

// Finished counts a request at its final response. r.Batch is nil if the request was not executed.
func (v *Version) Finished(r *infer.Request, resp *infer.Response, reason Reason) {
	now := r.Times.Finished
	whole := now.Sub(r.Times.Arrived)
	in, run := r.Times.Input.Sub(r.Times.Taken), r.Times.Output.Sub(r.Times.Input)
	out := cmp.Or(r.Times.Closed, now).Sub(r.Times.Output)
	b := r.Batch
	failed := resp.Err != nil
	if resp.Report != nil {
		failed = resp.Report.Kind == infer.RequestFailed
	}
	if failed && resp.Err == nil {
		reason = BackendFailure
	}

	defer v.activity.note()
	v.mu.Lock()
	defer v.mu.Unlock()
	if failed {
		v.c.Fail.add(whole)
		v.c.Failures[reason]++
		return
	}
	v.c.Success.add(whole)
	v.c.Latency[Bucket(whole)]++
	v.c.LastInference = time.Now()
	for i := range r.Inputs {
		v.c.InputBytes += uint64(r.Inputs[i].Size())
	}
	if v.detail != nil {
		v.observe(r, whole, in, run, out)
	}
	if b == nil {
		if r.Cache.Hit {
			v.c.Queue.add(0) // as in Triton, queue includes cache hits; here they do not wait
		}
		return
	}
	v.c.Inferences += uint64(r.BatchSize)
	v.c.Queue.add(r.Times.Taken.Sub(r.Times.Queued))
	v.c.Input.add(in)
	v.c.Infer.add(run)
	v.c.Output.add(out)
	v.countBatch(b, in, run)
}

// observe counts a success in detail. v.mu is held.
func (v *Version) observe(r *infer.Request, whole, in, run, out time.Duration) {
	now := r.Times.Finished
	v.detail.observe(Request, now, whole)
	v.detail.observe(Queue, now, r.Times.Taken.Sub(r.Times.Queued))
	if r.Batch != nil {
		v.detail.observe(ComputeInput, now, in)
		v.detail.observe(ComputeInfer, now, run)
		v.detail.observe(ComputeOutput, now, out)
	}
}

// Responded counts a response of a decoupled model, the final one before Finished.
func (v *Version) Responded(r *infer.Request, resp *infer.Response) {
	now := infer.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	i, from := r.Sent.N, r.Sent.At
	r.Sent.N, r.Sent.At = i+1, now
	if i == 0 && v.detail != nil && !resp.Empty {
		v.detail.observe(FirstResponse, now, now.Sub(r.Times.Arrived))
	}
	if i >= MaxResponses || v.reports.responses {
		return
	}
	if b := r.Batch; from == 0 && b != nil {
		from = cmp.Or(b.Input, b.Started)
	}
	from = cmp.Or(from, r.Times.Queued) // an ensemble's request has no batch
	c, took := v.c.response(i), now.Sub(from)
	switch {
	case resp.Err != nil && status.CodeOf(resp.Err) == status.Cancelled:
		c.Cancel.add(took)
		return
	case resp.Err != nil:
		c.Fail.add(took)
	case len(resp.Outputs) == 0:
		c.Empty.add(took)
		return // nothing was computed
	default:
		c.Success.add(took)
	}
	c.Infer.add(took)
	c.Output.add(0) // outputs are not copied
}

// SetTags sets the labels that the version's metrics have in addition to the server's: name, value, name, value.
func (v *Version) SetTags(tags []string) { v.tags.Store(&tags) }

// SetLoadTime sets how long the version took to load.
func (v *Version) SetLoadTime(d time.Duration) { v.load.Store(int64(d)) }

// CacheHit counts a request that was answered from the response cache, in addition to Finished. d is the time of the
// lookup.
func (v *Version) CacheHit(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.c.CacheHit.add(d)
	if v.detail != nil {
		v.detail.observe(CacheHit, infer.Now(), d)
	}
}

// CacheMiss counts a request whose response was not in the cache. d is the time of lookup and insertion.
func (v *Version) CacheMiss(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.c.CacheMiss.add(d)
	if v.detail != nil {
		v.detail.observe(CacheMiss, infer.Now(), d)
	}
}

// Refused counts a request that the scheduler did not admit, and that has no response.
func (v *Version) Refused(r *infer.Request, reason Reason) {
	whole := infer.Now().Sub(r.Times.Arrived)
	defer v.activity.note()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.c.Fail.add(whole)
	v.c.Failures[reason]++
}

// countBatch counts an execution when its first request finishes, so that a client which has its answer finds it
// counted. Executed adds the time of the output phase.
func (v *Version) countBatch(b *infer.Batch, in, run time.Duration) {
	if b.Counted || v.reports.executions {
		return
	}
	b.Counted = true
	v.c.Executions++
	s := v.c.batch(uint64(b.Rows))
	s.Input.add(in)
	s.Infer.add(run)
	s.Output.Count++
	s.Output.Ns += uint64(b.Closed) // known if the answers had to wait for others
}

// Stepped counts an execution after which a request is executed again.
func (v *Version) Stepped(b *infer.Batch) {
	in, out := cmp.Or(b.Input, b.Started), cmp.Or(b.Output, b.Ended)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.countBatch(b, in.Sub(b.Started), out.Sub(in))
}

// Executed adds what is known only after Execute has returned. A batch without a success is not counted.
func (v *Version) Executed(b *infer.Batch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b.Closed = b.Ended.Sub(b.Output)
	if b.Counted {
		v.c.batch(uint64(b.Rows)).Output.Ns += uint64(b.Closed)
	}
}

func (c *Counters) batch(size uint64) *Batch {
	i := 0
	for i < len(c.Batches) && c.Batches[i].Size < size {
		i++
	}
	if i == len(c.Batches) || c.Batches[i].Size != size {
		c.Batches = slices.Insert(c.Batches, i, Batch{Size: size})
	}
	return &c.Batches[i]
}

// Snapshot copies the counters into dst, and reuses its memory.
func (v *Version) Snapshot(dst *Snapshot) {
	batches, responses := dst.Batches[:0], dst.Responses[:0]
	v.mu.Lock()
	dst.Counters = v.c
	dst.Batches = append(batches, v.c.Batches...)
	dst.Responses = append(responses, v.c.Responses...)
	v.mu.Unlock()
	dst.Model, dst.Version, dst.Epoch, dst.Pending = v.model, v.version, v.epoch, max(v.pending.Load(), 0)
	if v.direct.Load() {
		dst.Pending = 0
	}
	dst.Cached, dst.LoadTime = v.cached.Load(), time.Duration(v.load.Load())
	dst.Tags = nil
	if tags := v.tags.Load(); tags != nil {
		dst.Tags = *tags
	}
}

// ReasonOf classifies a failure. executed: the request had reached an instance.
func ReasonOf(err error, executed bool) Reason {
	switch c := status.CodeOf(err); {
	case c == status.Cancelled:
		return Canceled
	case executed:
		return BackendFailure
	case c == status.Unavailable:
		return Rejected
	}
	return Other
}
