package perf

import (
	"sync"
	"time"

	"nereid/engine/client"
)

// Call is what became of one request. A Target fills it in.
type Call struct {
	Due   time.Time // when it was to be sent; zero in a closed loop
	Start time.Time // when it was sent
	First time.Time // when the first response had come
	End   time.Time // when the last one had come

	Responses     uint64
	Send, Receive time.Duration // the client's own work, as far as the protocol tells it apart

	Keep    bool             // the target is to keep the answers
	Answers []Answer         // only if Keep
	Last    *client.Response // with outputs; nil if there was none
}

// Answer is a response and when it came.
type Answer struct {
	At       time.Time
	Response *client.Response
}

// Tally is what was counted in a window, or in several.
type Tally struct {
	Begin, End time.Time     // of the window, or of the first and the last
	Elapsed    time.Duration // of all windows together

	Requests, Responses uint64
	Sequences           uint64 // that ended
	Delayed             uint64 // requests that were sent more than a millisecond after they were due
	Latency             Histogram
	Send, Receive       time.Duration // of all requests together
	Wait                time.Duration // from when requests were sent to their first responses, together
	Lag                 time.Duration // from when they were due to when they were sent, together
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

// LatencyBy is the latency that decides: the percentile, or the average for 0.
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

// recorder collects the calls of the window that is under way. Its shards are locked one by one, so that many goroutines
// can add at once.
type recorder struct {
	shards []shard
	done   chan struct{} // closed when want requests have ended
	want   uint64        // 0: no end

	mu      sync.Mutex
	ended   uint64   // guarded by mu; only counted if want is set
	records []Record // guarded by mu; only if keep
	keep    bool
}

type shard struct {
	mu sync.Mutex
	t  *Tally // guarded by mu
}

func newRecorder(shards int, want uint64, keep bool) *recorder {
	r := &recorder{shards: make([]shard, shards), done: make(chan struct{}), want: want, keep: keep}
	for i := range r.shards {
		r.shards[i].t = new(Tally)
	}
	return r
}

// add counts a call; by chooses the shard.
func (r *recorder) add(by int, c *Call, req *Request) {
	s := &r.shards[by%len(r.shards)]
	s.mu.Lock()
	s.t.add(c)
	if req.Sequence.End {
		s.t.Sequences++
	}
	s.mu.Unlock()
	if r.want == 0 && !r.keep {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keep {
		r.records = append(r.records, Record{Start: c.Start, Sequence: req.Sequence.ID, Inputs: req.Inputs, Answers: c.Answers})
	}
	if r.ended++; r.ended == r.want {
		close(r.done)
	}
}

// count is how many requests the window has so far.
func (r *recorder) count() (n uint64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += s.t.Requests
		s.mu.Unlock()
	}
	return n
}

// cut ends the window and begins the next.
func (r *recorder) cut() *Tally {
	sum := new(Tally)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		t := s.t
		s.t = new(Tally)
		s.mu.Unlock()
		sum.merge(t)
	}
	return sum
}

// taken returns the records and forgets them.
func (r *recorder) taken() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.records
	r.records = nil
	return list
}
