package perf

import (
	"context"
	"fmt"
	"time"
)

// Point is what a level showed, or one of its windows.
type Point struct {
	Level       float64 // requests under way, or a second
	Concurrency bool    // which of both
	Batch       int
	Percentile  int // of the latency that decides; 0: the average
	Windows     int // how many are in the figures: those that agreed, or all where none did
	Stable      bool
	Over        bool // the latency reached the threshold
	Interrupted bool // the run was cancelled before the level was done

	Tally
	Server  *ServerStats // nil: not asked for
	Metrics *Metrics     // nil: not asked for
}

// Throughput is rows a second.
func (p *Point) Throughput() float64 { return p.Rate(p.Requests) * float64(p.Batch) }

// ResponseThroughput is responses a second, by rows.
func (p *Point) ResponseThroughput() float64 { return p.Rate(p.Responses) * float64(p.Batch) }

// Decisive is the latency that decides.
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
	// Points are the levels within the limits, in the order that they were measured. The last one may be Interrupted.
	Points []Point
	// Beyond is the level that ended the search, or was beyond the limits last: not stable, or over the threshold. nil: none.
	Beyond      *Point
	Experiments []Experiment // only with Keep
}

// stableWindows is how many windows in a row must agree.
const stableWindows = 3

// grace is how long a run that is cancelled waits for answers.
const grace = 5 * time.Second

// Run measures the levels of the search. When ctx ends it stops soon, with what was measured so far and ctx's error. Other
// errors are a request's that failed, or of the server's statistics; the result is what was measured before.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{o: o}
	if err := r.o.setDefaults(); err != nil {
		return &Result{}, err
	}
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

// run is a run while it runs.
type run struct {
	o      Options
	feed   *feed
	result Result
}

// warmup sends requests that are not counted.
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

// drive runs a load, from when watch closes its start, while watch runs; then it stops the load and waits for its end. Where ctx is done, its calls have the grace.
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

// generate makes the load of a level until it is stopped.
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
		l.open(next, o.MaxInFlight)
	}
}

// measure measures one level and files it.
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
		r.result.Experiments = append(r.result.Experiments, Experiment{Level: level, Concurrency: p.Concurrency, Records: m.l.rec.taken(), Windows: m.bounds})
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
