package shadow

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

const (
	queueLength = 64       // copies that wait
	mostBytes   = 16 << 20 // of one copy
	// answerWithin is how long the candidate may take for one request.
	answerWithin = time.Minute
)

// Candidate is a loaded version that no client reaches.
type Candidate interface {
	// Acquire reserves a place for one request, which Infer uses up. It returns false while the candidate closes.
	Acquire() bool
	Infer(r *infer.Request) error
}

// Options say what is compared, and how.
type Options struct {
	Candidate Candidate
	// Percent of the requests are copied, above 0 and up to 100.
	Percent float64
	Rule    Rule
	// Busy reports whether the machine has no time for copies; nil: it always has.
	Busy func() bool
	// Memory counts the bytes of copies; nil: nobody does.
	Memory *tensor.Budget
}

// Shadow copies requests of a version in service to a candidate. It is safe for concurrent use.
type Shadow struct {
	o       Options
	queue   chan *sample
	ended   atomic.Bool // Run has returned, or is about to
	seen    atomic.Int64
	dropped atomic.Int64
	skipped atomic.Int64

	mu     sync.Mutex
	report Report // guarded by mu
	gap    welford
}

// sample is a copy of one request and of the answer to it. Its bytes are in size.
type sample struct {
	request *infer.Request
	outputs []tensor.Tensor
	took    time.Duration
	size    int64
}

// New makes a Shadow. The caller runs it.
func New(o Options) *Shadow {
	return &Shadow{o: o, queue: make(chan *sample, queueLength)}
}

// Offer copies a request and its final response if it is among the sampled ones. It does not block. It is called before
// the caller gets the response, so that inputs and outputs are still there.
func (s *Shadow) Offer(r *infer.Request, resp *infer.Response) {
	n := float64(s.seen.Add(1))
	if int64(n*s.o.Percent/100) == int64((n-1)*s.o.Percent/100) {
		return
	}
	if resp.Err != nil || r.Cache.Hit || onDevice(r.Inputs) || onDevice(resp.Outputs) {
		s.skipped.Add(1)
		return
	}
	size := bytesOf(r.Inputs) + bytesOf(resp.Outputs)
	if size > mostBytes || len(s.queue) == cap(s.queue) || s.busy() || s.o.Memory.Take(size, 0) != nil {
		s.dropped.Add(1)
		return
	}
	select {
	case s.queue <- copyOf(r, resp, size):
		if s.ended.Load() {
			s.drain()
		}
	default:
		s.o.Memory.Give(size)
		s.dropped.Add(1)
	}
}

func (s *Shadow) busy() bool { return s.o.Busy != nil && s.o.Busy() }

func onDevice(all []tensor.Tensor) bool {
	return slices.ContainsFunc(all, func(t tensor.Tensor) bool { return t.OnDevice() != nil })
}

func bytesOf(all []tensor.Tensor) (n int64) {
	for i := range all {
		n += int64(all[i].Size())
	}
	return n
}

func copyOf(r *infer.Request, resp *infer.Response, size int64) *sample {
	c := infer.New()
	c.ModelName = strings.Clone(r.ModelName)
	c.Inputs = appendCopies(c.Inputs, r.Inputs)
	for i := range r.Outputs {
		c.Outputs = append(c.Outputs, infer.RequestedOutput{Name: strings.Clone(r.Outputs[i].Name)})
	}
	for _, p := range r.Parameters {
		p.Name, p.Text = strings.Clone(p.Name), strings.Clone(p.Text)
		c.Parameters = append(c.Parameters, p)
	}
	return &sample{request: c, outputs: appendCopies(nil, resp.Outputs), took: executed(r), size: size}
}

func appendCopies(dst, all []tensor.Tensor) []tensor.Tensor {
	for _, t := range all {
		t.Name, t.Shape = strings.Clone(t.Name), slices.Clone(t.Shape)
		t.Data, t.Buf = slices.Clone(t.Data), nil
		dst = append(dst, t)
	}
	return dst
}

// executed returns how long the execution of an answered request took, without its wait in the queue.
func executed(r *infer.Request) time.Duration { return r.Times.Finished.Sub(r.Times.Taken) }

// Run sends the copies to the candidate, one after the other, until ctx ends. It drops those that wait then.
func (s *Shadow) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.ended.Store(true) // what comes after this is dropped by Offer
			s.drain()
			return
		case c := <-s.queue:
			s.send(ctx, c)
			s.drop(c)
		}
	}
}

// drain drops the copies that wait.
func (s *Shadow) drain() {
	for {
		select {
		case c := <-s.queue:
			s.drop(c)
		default:
			return
		}
	}
}

func (s *Shadow) drop(c *sample) {
	c.request.Release()
	s.o.Memory.Give(c.size)
}

// send lets the candidate answer one copy and counts the result.
func (s *Shadow) send(parent context.Context, c *sample) {
	ctx, stop := context.WithTimeout(parent, answerWithin)
	defer stop()
	if !s.o.Candidate.Acquire() {
		return
	}
	err := s.o.Candidate.Infer(c.request)
	var resp *infer.Response
	if err == nil {
		resp, err = c.request.Next(ctx)
	}
	if resp != nil {
		err = resp.Err
		defer resp.Release()
	} else {
		c.request.Cancel()
	}
	if parent.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.report.failed(err)
		return
	}
	s.report.add(s.o.Rule, c.outputs, resp)
	s.gap.add((executed(c.request) - c.took).Seconds())
}

// Report returns what was compared so far.
func (s *Shadow) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.report
	out.Outputs = slices.Clone(out.Outputs)
	out.Seen, out.Dropped, out.Skipped = s.seen.Load(), s.dropped.Load(), s.skipped.Load()
	out.Waiting = len(s.queue)
	out.GapSeconds, out.GapError = s.gap.interval()
	return out
}
