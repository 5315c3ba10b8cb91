package perf

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"nereid/engine/client"
)

// Options say what to measure. Target, Model, Data and one of Concurrency, Rate, Intervals and Schedule are needed.
type Options struct {
	Target Target
	Model  Model
	Data   *Data
	RequestOptions
	Load
	Search
	WindowOptions

	// Server answers for its statistics; nil: none are read.
	Server Server
	// Gather reads metrics of the server, at the begin of a window and then once per Interval; nil: none are read.
	Gather   func() (Metrics, error)
	Interval time.Duration // default 1 s

	Seed   uint64 // of random gaps and lengths of sequences; 0: another one each time
	Keep   bool   // keep records of all requests, for the export
	Events Events
}

// RequestOptions say what every request has in addition to its inputs.
type RequestOptions struct {
	Batch      int             // rows of a request; default 1
	Parameters map[string]any  // bool, int64 or string
	Outputs    []client.Output // default: all
	Sequences  SequenceOptions
}

// Load is a number of requests in flight, a number per second, gaps that are repeated, or fixed times that are used
// once.
type Load struct {
	Concurrency *Range
	Rate        *Range
	Poisson     bool // the gaps of Rate are random
	Intervals   []time.Duration
	Schedule    []time.Duration
	// MaxInFlight bounds the requests in flight unless the load is a concurrency; default 1024.
	MaxInFlight int
	// TimersOnly paces requests with timers alone. They may be a millisecond late, but work with a fake clock.
	TimersOnly bool
}

// Search says how the levels of a range are measured.
type Search struct {
	Binary    bool          // by halves
	Threshold time.Duration // of the decisive latency: the search ends there; 0: none
}

// WindowOptions say how long a level is measured.
type WindowOptions struct {
	Window         time.Duration // default DefaultWindow
	WindowCount    int           // above 0: a window lasts a second and until so many requests were answered
	Stability      float64       // of the last three windows, in percent; default 10
	ThroughputOnly bool          // only the throughput must be stable, as with perf_analyzer's asynchronous calls
	MaxTrials      int           // the most windows; default 10
	Percentile     int           // of the decisive latency; 0: the average
	Requests       int           // above 0: one window of so many requests
	Warmup         int           // requests before the first level
}

// DefaultWindow is the length of a time window.
const DefaultWindow = 5 * time.Second

// Events are called while Run runs, by one goroutine. They must return soon; nil functions are left out.
type Events struct {
	Level  func(level float64)           // a level begins
	Window func(level float64, w *Point) // one of its windows has ended
	Point  func(p *Point)                // a level has ended
}

// Check returns all faults of the options at once. Before Model is known it finds those that do not depend on it.
func (o *Options) Check() error {
	var errs faults
	o.checkLoad(&errs)
	if r := o.levels(); r != nil {
		o.checkLevels(&errs, r)
	} else if o.Binary {
		errs.add("a binary search wants a range of concurrencies or request rates, not intervals or a schedule")
	}
	for _, n := range []int{o.Batch, o.WindowCount, o.MaxTrials, o.Requests, o.Warmup, o.MaxInFlight} {
		if n < 0 {
			errs.add("%d is negative; counts are 0 (the default) or above", n)
		}
	}
	if o.Percentile < 0 || o.Percentile > 99 {
		errs.add("the percentile %d: want 1 to 99, or 0 for the average", o.Percentile)
	}
	if o.Window < 0 || o.Interval < 0 || o.Threshold < 0 || o.Stability < 0 {
		errs.add("times and percentages must not be negative")
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	setDefault(&o.Window, DefaultWindow)
	setDefault(&o.Stability, 10)
	setDefault(&o.MaxTrials, 10)
	setDefault(&o.MaxInFlight, 1024)
	setDefault(&o.Interval, time.Second)
}

type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// checkLoad checks that there is one load, and that the model can take it.
func (o *Options) checkLoad(errs *faults) {
	modes := 0
	for _, given := range []bool{o.Concurrency != nil, o.Rate != nil, o.Intervals != nil, o.Schedule != nil} {
		if given {
			modes++
		}
	}
	if modes != 1 {
		errs.add("want one of a concurrency, a request rate, request intervals and a schedule; %d are given", modes)
	}
	if o.Schedule != nil && (o.Batch > 1 || o.Model.Sequence) {
		errs.add("a schedule sends each entry of the input data once: it has no batches and no sequences")
	}
	if o.Schedule != nil && (o.Requests > 0 || o.Warmup > 0) {
		errs.add("a schedule sends each entry of the input data once: it takes no number of requests, also before it")
	}
	if o.Model.Sequence {
		live := o.sequenceCount()
		if r := o.Concurrency; r != nil {
			if live = int(max(r.Start, r.End)); r.End == 0 {
				live = math.MaxInt // there is no end
			}
		}
		if err := o.Sequences.check(live); err != nil {
			errs.add("%w", err)
		}
	}
}

// checkLevels checks the range of the search.
func (o *Options) checkLevels(errs *faults, r *Range) {
	if r.End == 0 && o.Threshold == 0 {
		errs.add("the range has no end and there is no latency threshold: the search would not end; give one of both")
	}
	if o.Binary && (r.End <= r.Start || o.Threshold == 0) {
		errs.add("a binary search wants a range with an end above its start, and a latency threshold")
	}
	if (r.End > r.Start || r.End == 0) && (o.Requests > 0 || o.Warmup > 0) {
		errs.add("a number of requests or of warmup requests wants one level, not a range of them")
	}
	if o.Requests > 0 && float64(o.Requests) < r.Start {
		errs.add("%d requests are fewer than the concurrency or rate %v", o.Requests, r.Start)
	}
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// levels is the range of the search; nil if the load has one level.
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
