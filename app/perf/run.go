package perf

import (
	"context"
	"fmt"
	"time"
)

// Point is the figures of a level, or of one of its windows.
type Point struct {
	Level       float64 // requests in flight if Concurrency, else per second
	Concurrency bool
	Batch       int
	Percentile  int // of the decisive latency; 0: the average
	Windows     int // in the figures: those that agreed, or all if none did
	Stable      bool
	Over        bool // the latency reached the threshold
	Interrupted bool // the run was cancelled before the end of the level

	Tally
	Server  *ServerStats // nil: not read
	Metrics Metrics      // nil: not read
}

// Throughput is rows per second.
func (p *Point) Throughput() float64 { return p.Rate(p.Requests) * float64(p.Batch) }

// ResponseThroughput is responses per second, times the rows.
func (p *Point) ResponseThroughput() float64 { return p.Rate(p.Responses) * float64(p.Batch) }

// Decisive is the latency by which levels and windows are compared.
func (p *Point) Decisive() time.Duration { return p.LatencyBy(p.Percentile) }

// Experiment is the records of a level.
type Experiment struct {
	Level       float64
	Concurrency bool
	Records     []Record
	Windows     []time.Time // where they begin and end
}

// Result is what Run measured.
type Result struct {
	// Points are the levels within the limits in the order of measuring. The last one may be Interrupted.
	Points []Point
	// Beyond is the last level outside the limits: not stable, or over the threshold. nil: none.
	Beyond      *Point
	Experiments []Experiment // only with Keep
}

// stableWindows is the number of consecutive windows that must agree.
const stableWindows = 3

// grace is how long a cancelled run waits for responses.
const grace = 5 * time.Second

// Run measures the levels of the search. When ctx ends it soon returns what was measured and ctx's error. It also ends
// with the first request that fails, or if the server's statistics cannot be read; the result is what was measured
// before.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{o: o}
	if err := r.o.Check(); err != nil {
		return &Result{}, err
	}
	r.o.setDefaults()
	var err error
	if r.feed, err = newFeed(&r.o); err != nil {
		return &Result{}, err
	}
	if o.Warmup > 0 {
		if err := r.warmup(ctx); err != nil {
			return &Result{}, fmt.Errorf("warming up: %w", err)
		}
	}
	if levels := r.o.levels(); levels != nil {
		err = search(ctx, *levels, o.Binary, r.measure)
	} else {
		rate := 0.0
		if o.Intervals != nil {
			rate = meanRate(o.Intervals)
		}
		_, err = r.measure(ctx, rate)
	}
	return &r.result, err
}

// run is the state of Run.
type run struct {
	o      Options
	feed   *feed
	result Result
}

// warmup sends requests that do not count.
func (r *run) warmup(ctx context.Context) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l := newLoad(calls, r.o.Target, r.feed, r.o.Warmup, false)
	level := 1.0
	if levels := r.o.levels(); levels != nil {
		level = levels.Start
	}
	return r.drive(ctx, cancel, l, level, func() error {
		close(l.start)
		select {
		case <-l.rec.done:
			return nil
		case <-l.fail:
			return l.fault
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// drive runs a load while watch runs; watch closes its start channel. Then it stops the load and waits for its end. If
// ctx is done, requests in flight get the grace period.
func (r *run) drive(ctx context.Context, cancel func(), l *load, level float64, watch func() error) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.start:
			r.generate(l, level)
		case <-l.stop:
		}
	}()
	err := watch()
	close(l.stop)
	select {
	case <-ended:
	case <-ctx.Done():
		timer := time.AfterFunc(grace, cancel)
		defer timer.Stop()
		<-ended
	}
	if err == nil {
		select {
		case <-l.fail:
			err = l.fault
		default:
		}
	}
	return err
}

// generate generates the load of a level until it is stopped.
func (r *run) generate(l *load, level float64) {
	o := &r.o
	if !o.TimersOnly {
		l.spare = 1500 * time.Microsecond
	}
	var next schedule
	switch {
	case o.Concurrency != nil:
		l.closed(int(level))
		return
	case o.Intervals != nil:
		next = repeated(o.Intervals)
	case o.Schedule != nil:
		next = once(o.Schedule)
	case o.Poisson:
		next = poisson(level, o.random())
	default:
		next = constant(level)
	}
	if o.Model.Sequence {
		l.openSequences(next, o.sequenceCount())
	} else {
		l.open(next, o.MaxInFlight, o.Schedule != nil)
	}
}

// measure measures one level and adds it to the result.
func (r *run) measure(ctx context.Context, level float64) (within bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if f := r.o.Events.Level; f != nil {
		f(level)
	}
	want := r.o.Requests
	if r.o.Schedule != nil {
		want = len(r.o.Schedule)
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	m := &measurement{r: r, level: level, want: want, l: newLoad(calls, r.o.Target, r.feed, want, r.o.Keep)}
	err = r.drive(ctx, cancel, m.l, level, func() error { return m.watch(ctx) })
	p := m.summary()
	if err != nil && (ctx.Err() == nil || p.Requests == 0) {
		return false, err
	}
	p.Interrupted = err != nil
	if r.o.Keep {
		r.result.Experiments = append(r.result.Experiments, Experiment{Level: level, Concurrency: p.Concurrency,
			Records: m.l.rec.taken(), Windows: m.bounds})
	}
	p.Over = r.o.Threshold > 0 && p.Decisive() >= r.o.Threshold
	within = p.Stable && !p.Over
	if within || p.Interrupted {
		r.result.Points = append(r.result.Points, *p)
	} else {
		r.result.Beyond = p
	}
	if f := r.o.Events.Point; f != nil {
		f(p)
	}
	return within, err
}

// measureFunc measures a level and reports whether it is within the limits. An error ends the search.
type measureFunc func(ctx context.Context, level float64) (within bool, err error)

// search measures levels of a range. A linear search goes up from the start until a level is not within the limits; if
// the end is below the start it measures only the start. A binary search measures the start and the end, and then
// halves the range until two levels are no further apart than the step.
func search(ctx context.Context, r Range, binary bool, measure measureFunc) error {
	if binary {
		return bisect(ctx, r, measure)
	}
	for i := 0; ; i++ {
		level := r.Start + float64(i)*r.Step // rounding errors do not add up
		if i > 0 && r.End != 0 && !r.Has(level) {
			return nil
		}
		if within, err := measure(ctx, level); err != nil || !within {
			return err
		}
	}
}

func bisect(ctx context.Context, r Range, measure measureFunc) error {
	if within, err := measure(ctx, r.Start); err != nil || !within {
		return err
	}
	if within, err := measure(ctx, r.End); err != nil || within {
		return err
	}
	low, high := r.Start, r.End
	for high-low > r.Step {
		mid := (low + high) / 2
		if r.whole() {
			mid = float64(int64(mid))
		}
		if mid <= low || mid >= high { // the step is smaller than numbers of this size can be
			return nil
		}
		within, err := measure(ctx, mid)
		if err != nil {
			return err
		}
		if within {
			low = mid
		} else {
			high = mid
		}
	}
	return nil
}

// whole reports whether the levels are whole numbers, as those of a concurrency.
func (r Range) whole() bool {
	for _, v := range []float64{r.Start, r.End, r.Step} {
		if v != float64(int64(v)) {
			return false
		}
	}
	return true
}
