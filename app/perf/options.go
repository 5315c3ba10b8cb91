package perf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"nereid/engine/client"
)

// Options say what to measure. Target, Model, Data and one of Concurrency, Rate, Intervals and Schedule are needed.
type Options struct {
	Target Target
	Model  Model
	Data   *Data

	Batch      int             // rows of a request; default 1
	Parameters map[string]any  // of every request: bool, int64 or string
	Outputs    []client.Output // default: all
	Sequences  SequenceOptions
	Seed       uint64 // of Poisson's gaps and the sequences' lengths; 0: another one each time

	// The load: so many requests under way, or so many a second, or gaps that are repeated, or fixed times (once).
	Concurrency *Range
	Rate        *Range
	Poisson     bool // the gaps of Rate are random
	Intervals   []time.Duration
	Schedule    []time.Duration
	// MostUnderWay bounds the requests under way of a load that is no concurrency; default 1024.
	MostUnderWay int
	// Coarse paces by timers alone, which may be a millisecond late but know a fake clock.
	Coarse bool

	Binary    bool          // search by halves
	Threshold time.Duration // of the latency that decides; 0: none

	Window      time.Duration // default 5 s
	WindowCount int           // above 0: windows last a second and until so many requests have been answered
	Stability   float64       // of the last three windows, in percent; default 10
	Rough       bool          // the throughput alone must be stable, as with perf_analyzer's asynchronous calls
	MaxTrials   int           // default 10
	Percentile  int           // of the latency that decides; 0: the average
	Requests    int           // above 0: one window of so many requests
	Warmup      int           // requests before the first level

	Server Server // nil: no statistics of the server
	// Gather is called once a window's Interval for metrics of the server; nil: none.
	Gather   func() (Metrics, error)
	Interval time.Duration // default 1 s

	Keep   bool // records of all requests, for the export
	Events Events
}

// Events tell of what happens while Run runs; nil functions are left out. They are called by one goroutine and must return
// soon.
type Events struct {
	Level  func(level float64)           // a level begins
	Window func(level float64, w *Point) // one of its windows has ended
	Point  func(p *Point)                // a level has ended
}

// setDefaults fills in what is left out, and returns every fault at once.
func (o *Options) setDefaults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	modes := 0
	for _, given := range []bool{o.Concurrency != nil, o.Rate != nil, o.Intervals != nil, o.Schedule != nil} {
		if given {
			modes++
		}
	}
	if modes != 1 {
		bad("want one of a concurrency, a request rate, request intervals and a schedule; %d are given", modes)
	}
	if r := o.levels(); r != nil {
		if r.End == 0 && o.Threshold == 0 {
			bad("the range has no end and there is no latency threshold: the search would not end; give one of both")
		}
		if o.Binary && (r.End <= r.Start || o.Threshold == 0) {
			bad("a binary search wants a range with an end above its start, and a latency threshold")
		}
		if r.End > r.Start && (o.Requests > 0 || o.Warmup > 0) {
			bad("a number of requests or of warmup requests wants one level, not a range of them")
		}
		if o.Requests > 0 && float64(o.Requests) < r.Start {
			bad("%d requests are fewer than the concurrency or rate %v", o.Requests, r.Start)
		}
		if o.Concurrency != nil && o.Model.Sequence {
			if err := o.Sequences.check(int(max(r.Start, r.End))); err != nil {
				bad("%w", err)
			}
		}
	}
	if o.Schedule != nil && (o.Batch > 1 || o.Model.Sequence) {
		bad("a schedule sends each entry of the input data once: it has no batches and no sequences")
	}
	if o.Concurrency == nil && o.Model.Sequence {
		if err := o.Sequences.check(o.sequenceCount()); err != nil {
			bad("%w", err)
		}
	}
	for _, n := range []int{o.Batch, o.WindowCount, o.MaxTrials, o.Requests, o.Warmup, o.MostUnderWay} {
		if n < 0 {
			bad("%d is negative; counts are 0 (the default) or above", n)
		}
	}
	if o.Percentile < 0 || o.Percentile > 99 {
		bad("the percentile %d: want 1 to 99, or 0 for the average", o.Percentile)
	}
	if o.Window < 0 || o.Interval < 0 || o.Threshold < 0 || o.Stability < 0 {
		bad("times and percentages must not be negative")
	}
	setDefault(&o.Window, 5*time.Second)
	setDefault(&o.Stability, 10)
	setDefault(&o.MaxTrials, 10)
	setDefault(&o.MostUnderWay, 1024)
	setDefault(&o.Interval, time.Second)
	return errors.Join(errs...)
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// levels is the range of the search, nil if the load has one level.
func (o *Options) levels() *Range {
	if o.Concurrency != nil {
		return o.Concurrency
	}
	return o.Rate
}

func (o *Options) sequenceCount() int {
	if o.Sequences.Count > 0 {
		return o.Sequences.Count
	}
	return 4
}

func (o *Options) random() *rand.Rand {
	if o.Seed == 0 {
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return rand.New(rand.NewPCG(o.Seed, 0x6e6572656964))
}
