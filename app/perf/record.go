package perf

import (
	"sync"
	"time"

	"nereid/engine/client"
)

// Call is the course of one request. A Target fills it in.
type Call struct {
	Due   time.Time // when it should have been sent; zero in a closed loop
	Start time.Time // when it was sent
	First time.Time // when the first response had arrived
	End   time.Time // when the last one had arrived

	Responses     uint64
	Send, Receive time.Duration // the client's own work, as far as the protocol lets it be measured

	Keep    bool             // the target keeps all responses
	Answers []Answer         // only if Keep
	Last    *client.Response // the last one with outputs; nil if there was none
}

// Answer is a response and when it arrived.
type Answer struct {
	At       time.Time
	Response *client.Response
}

// Tally is the counts of one window, or of several.
type Tally struct {
	Begin, End time.Time     // of the window, or of the first and the last window
	Elapsed    time.Duration // sum of all windows

	Requests, Responses uint64
	Sequences           uint64 // that have ended
	Delayed             uint64 // requests that were sent more than a millisecond after they were due
	Latency             Histogram
	Send, Receive       time.Duration // sums over all requests, as the following
	Wait                time.Duration // from sending to the first response
	Lag                 time.Duration // from the due time to sending
}

func (t *Tally) add(c *Call) {
	from := c.Start
	if !c.Due.IsZero() {
		from = c.Due
		lag := c.Start.Sub(c.Due)
		t.Lag += lag
		if lag > time.Millisecond {
			t.Delayed++
		}
	}
	t.Requests++
	t.Responses += c.Responses
	t.Latency.Add(c.First.Sub(from))
	t.Wait += c.First.Sub(c.Start)
	t.Send += c.Send
	t.Receive += c.Receive
}

// merge adds another window.
func (t *Tally) merge(o *Tally) {
	if t.Begin.IsZero() {
		t.Begin = o.Begin
	}
	t.End = o.End
	t.Elapsed += o.Elapsed
	t.Requests += o.Requests
	t.Responses += o.Responses
	t.Sequences += o.Sequences
	t.Delayed += o.Delayed
	t.Latency.Merge(&o.Latency)
	t.Send += o.Send
	t.Receive += o.Receive
	t.Wait += o.Wait
	t.Lag += o.Lag
}

// Rate is a count per second of the windows.
func (t *Tally) Rate(n uint64) float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(n) / t.Elapsed.Seconds()
}

// mean is the average of a sum over the requests.
func (t *Tally) mean(sum time.Duration) time.Duration {
	if t.Requests == 0 {
		return 0
	}
	return sum / time.Duration(t.Requests)
}

// LatencyBy is the decisive latency: the percentile, or the average for 0.
func (t *Tally) LatencyBy(percentile int) time.Duration {
	if percentile > 0 {
		return t.Latency.Quantile(float64(percentile) / 100)
	}
	return t.Latency.Mean()
}

// Record is one request as it is exported.
type Record struct {
	Start    time.Time
	Sequence uint64
	Inputs   []client.Tensor
	Answers  []Answer
}

// recorder collects the calls of the current window. It is safe for concurrent use.
type recorder struct {
	done chan struct{} // closed when want requests have been answered
	want uint64        // 0: no limit
	keep bool

	mu      sync.Mutex
	t       *Tally   // guarded by mu
	ended   uint64   // guarded by mu: requests of all windows
	records []Record // guarded by mu; only if keep
}

func newRecorder(want uint64, keep bool) *recorder {
	return &recorder{done: make(chan struct{}), want: want, keep: keep, t: new(Tally)}
}

// add counts a call.
func (r *recorder) add(c *Call, req *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.add(c)
	if req.Sequence.End {
		r.t.Sequences++
	}
	r.record(c, req)
	if r.ended++; r.ended == r.want {
		close(r.done)
	}
}

// export keeps the record of a call that does not count.
func (r *recorder) export(c *Call, req *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(c, req)
}

// record keeps the record of a call if records are kept. The caller holds r.mu.
func (r *recorder) record(c *Call, req *Request) {
	if r.keep {
		r.records = append(r.records, Record{Start: c.Start, Sequence: req.Sequence.ID, Inputs: req.Inputs,
			Answers: c.Answers})
	}
}

// count is the number of requests in the window so far.
func (r *recorder) count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.t.Requests
}

// cut ends the window, begins the next and returns the counts.
func (r *recorder) cut() *Tally {
	next := new(Tally)
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.t
	r.t = next
	return t
}

// taken returns the records and drops them.
func (r *recorder) taken() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.records
	r.records = nil
	return list
}
