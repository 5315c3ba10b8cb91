package perf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"nereid/engine/client"
)

// SequenceOptions describe sequences. The zero value is perf_analyzer's default.
type SequenceOptions struct {
	Count     int     // sequences at a time when the load is a rate; default 4
	Length    int     // requests in one; default 20, or the length of the given data
	Variation float64 // by how many percent the length varies either way
	FirstID   uint64  // default 1
	EndID     uint64  // one above the last; 0: no bound
	Given     bool    // the user set the length: it holds for given data too
}

// Request is a request with the expected outputs.
type Request struct {
	client.Request
	Want []client.Tensor
}

// feed makes the requests of a load. It is safe for concurrent use.
type feed struct {
	model *Model
	flat  []Step // all steps, batched, for requests without sequences
	n     atomic.Uint64
	id    atomic.Uint64

	parameters map[string]any
	outputs    []client.Output
	emptyFinal bool

	batch   int
	streams [][]Step // for sequences
	given   bool
	seq     SequenceOptions

	mu      sync.Mutex
	rng     *rand.Rand      // guarded by mu
	nextID  uint64          // guarded by mu
	live    map[uint64]bool // guarded by mu
	started uint64          // guarded by mu: sequences so far; they take the streams in turn
}

// newFeed joins the steps into batches.
func newFeed(o *Options) (*feed, error) {
	f := &feed{
		model: &o.Model, parameters: o.Parameters, outputs: o.Outputs, emptyFinal: o.Model.Decoupled,
		batch: max(1, o.Batch),
		given: o.Data.Given, seq: o.Sequences, live: map[uint64]bool{}, rng: o.random(),
	}
	if f.seq.FirstID == 0 {
		f.seq.FirstID = 1
	}
	f.nextID = f.seq.FirstID
	if f.seq.Length == 0 {
		f.seq.Length = 20
	}
	batched := o.Model.MaxBatchSize > 0
	switch {
	case f.batch > 1 && !batched:
		return nil, fmt.Errorf("batch size %d: model %q does not batch (max_batch_size is 0)", f.batch, o.Model.Name)
	case f.batch > 1 && o.Model.Sequence:
		return nil, fmt.Errorf("batch size %d: requests of sequences have one row", f.batch)
	case batched && f.batch > o.Model.MaxBatchSize:
		return nil, fmt.Errorf("batch size %d: model %q takes %d rows at most (max_batch_size)", f.batch, o.Model.Name,
			o.Model.MaxBatchSize)
	}
	var all []Step
	for _, steps := range o.Data.Streams {
		var stream []Step
		for i := range steps {
			s, err := batch(steps[i:i+1], batched)
			if err != nil {
				return nil, err
			}
			s.At = steps[i].At
			stream = append(stream, s)
		}
		f.streams = append(f.streams, stream)
		all = append(all, steps...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no input data")
	}
	for i := range all {
		rows := make([]Step, f.batch)
		for k := range rows {
			rows[k] = all[(i*f.batch+k)%len(all)]
		}
		s, err := batch(rows, batched)
		if err != nil {
			return nil, err
		}
		f.flat = append(f.flat, s)
	}
	return f, nil
}

// next returns the next request of a load without sequences.
func (f *feed) next() *Request { return f.request(&f.flat[(f.n.Add(1)-1)%uint64(len(f.flat))]) }

func (f *feed) request(s *Step) *Request {
	return &Request{Want: s.Want, Request: client.Request{
		Model: f.model.Name, Version: f.model.Version, ID: strconv.FormatUint(f.id.Add(1), 10),
		Inputs: s.Inputs, Outputs: f.outputs, Parameters: f.parameters, EmptyFinal: f.emptyFinal,
	}}
}

// sequence is a sequence that is being sent, by one goroutine at a time.
type sequence struct {
	id     uint64
	steps  []Step
	at     int
	length int
}

// begin starts a new sequence. No live sequence has its ID.
func (f *feed) begin() *sequence {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.live[f.nextID] {
		f.advance()
	}
	s := &sequence{id: f.nextID, steps: f.streams[f.started%uint64(len(f.streams))]}
	f.live[s.id] = true
	f.advance()
	f.started++
	s.length = f.seq.Length
	if f.given && !f.seq.Given {
		s.length = len(s.steps)
		return s
	}
	if v := f.seq.Variation / 100; v > 0 {
		s.length = max(1, int(float64(s.length)*(1-v+2*v*f.rng.Float64())+0.5))
	}
	return s
}

// advance changes nextID to the next value. The caller holds f.mu.
func (f *feed) advance() {
	if f.nextID++; f.nextID == f.seq.EndID || f.nextID == 0 {
		f.nextID = f.seq.FirstID
	}
}

// end frees the ID.
func (f *feed) end(s *sequence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, s.id)
}

// step returns the next request of a sequence. last makes it the last one before the sequence has its length.
func (f *feed) step(s *sequence, last bool) *Request {
	r := f.request(&s.steps[s.at%len(s.steps)])
	s.at++
	r.Sequence = client.Sequence{ID: s.id, Start: s.at == 1, End: last || s.at >= s.length}
	return r
}

// check refuses ranges of IDs with fewer IDs than live sequences.
func (o *SequenceOptions) check(live int) error {
	if first := max(1, o.FirstID); o.EndID-first < uint64(live) { // an end of 0 stands for 2⁶⁴, as it does here
		if live == math.MaxInt {
			return fmt.Errorf("the range of %d sequence IDs bounds a concurrency without an end; give it one, or "+
				"leave out the end of the IDs", o.EndID-first)
		}
		return fmt.Errorf("the range of %d sequence IDs is smaller than the %d sequences that may be live; widen it",
			o.EndID-first, live)
	}
	return nil
}
