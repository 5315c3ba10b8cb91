package alerts

import (
	"context"
	"slices"
	"time"

	"nereid/app/history"
	"nereid/store"
)

const (
	// slower is the factor from which a version counts as slower, and surely the least that its lower bound must have.
	slower, surely = 1.2, 1.1
	// worse is by how much the share of failures must have grown at least.
	worse = 0.01
	// leastBlocks and mostBlocks are how many periods of each side a comparison of times takes.
	leastBlocks, mostBlocks = 30, 240
	// leastRequests is how many requests of each side a comparison of failures takes.
	leastRequests = 30
)

// steps are the periods in which times are compared, and how far back each looks: seconds, or for a model with few
// requests minutes.
var steps = []struct{ step, back time.Duration }{{time.Second, 20 * time.Minute}, {time.Minute, 24 * time.Hour}}

// comparison is that of a version, since a load, with what served before it.
type comparison struct {
	model   string
	version int64
	startUS int64 // the first full second after the load
	sinceUS int64 // when what served before was loaded; 0: not known
	nextUS  int64 // when to look next
	told    bool  // it has raised its alert
	looks   int   // since the last request of the version
	before  []served
}

// served is what served before, in the periods of one step.
type served struct {
	version int64
	blocks  []store.Sample
}

// schedule sets when to look next: often at first, and rarely later.
func (c *comparison) schedule(nowUS int64) {
	every := 10 * time.Minute
	switch age := time.Duration(nowUS-c.startUS) * time.Microsecond; {
	case age < time.Minute:
		every = 5 * time.Second
	case age < 10*time.Minute:
		every = 10 * time.Second
	case age < time.Hour:
		every = time.Minute
	}
	c.nextUS = nowUS + every.Microseconds()
}

// over reports whether the comparison has ended without a finding.
func (c *comparison) over(nowUS int64) bool { return nowUS-c.startUS > (24 * time.Hour).Microseconds() }

// compare looks whether a version is slower than what served before, or fails more. nil: it is not, or not for certain.
//
// The times of requests are not independent of each other: a busy machine slows all those of a second. So the unit is
// the mean time of a period, and only periods with a similar number of requests are compared, from half to twice the
// usual. Neighbours that depend on each other count for less. The version is slower if the factor is 1.2 or more, and
// its lower bound 1.1 or more: see ratio. It fails more if the intervals of both shares do not overlap, and they differ
// by a hundredth.
func compare(ctx context.Context, s *store.Store, c *comparison, nowUS int64) (*Alert, error) {
	// The history is written with a delay, so the first looks are not kept.
	if keep := nowUS-c.startUS > 2*window.Microseconds()/3; c.before == nil || !keep {
		c.before = make([]served, len(steps))
		for i, at := range steps {
			blocks, version, err := reference(ctx, s, c, at.step, at.back)
			if err != nil {
				return nil, err
			}
			c.before[i] = served{version, blocks}
		}
	}
	for i, at := range steps {
		before, version := c.before[i].blocks, c.before[i].version
		if len(before) == 0 {
			continue
		}
		now, err := blocks(ctx, s, c.model, c.version, c.startUS, nowUS, at.step)
		if err != nil {
			return nil, err
		}
		a := Alert{Kind: Version, Model: c.model, Version: c.version, BeforeVersion: version}
		slow, fails := a.slower(before, now), a.fails(before, now)
		if !slow && !fails {
			continue
		}
		a.Slower, a.FailsMore = slow, fails
		from := c.startUS - at.back.Microseconds()
		if a.CPUBefore, err = meanCPU(ctx, s, from, c.startUS); err != nil {
			return nil, err
		}
		a.CPUNow, err = meanCPU(ctx, s, c.startUS, nowUS)
		return &a, err
	}
	return nil, nil
}

// blocks returns the periods of a version with requests, the newest ones.
func blocks(ctx context.Context, s *store.Store, model string, version, fromUS, toUS int64, step time.Duration,
) ([]store.Sample, error) {
	if fromUS = max(fromUS, 0); toUS <= fromUS {
		return nil, nil
	}
	got, err := s.Samples(ctx, store.SampleQuery{Model: model, Version: version, FromUS: fromUS, ToUS: toUS,
		Step: step})
	if err != nil {
		return nil, err
	}
	busy := slices.DeleteFunc(got.Points, func(p store.Sample) bool { return counted(&p) == 0 || p.StartUS < fromUS })
	return busy[max(len(busy)-mostBlocks, 0):], nil
}

// reference returns the periods before a load of the version that served last, and which one that is. They are those
// since the load before, or more if these are too few.
func reference(ctx context.Context, s *store.Store, c *comparison, step, back time.Duration,
) ([]store.Sample, int64, error) {
	from := c.startUS - back.Microseconds()
	// Up to the second before the load: in that one both may have served.
	to := (c.startUS - (2 * time.Second).Microseconds()) / step.Microseconds() * step.Microseconds()
	spans, err := s.Spans(ctx, c.model, 0, max(from, 0), to)
	if err != nil {
		return nil, 0, err
	}
	var last []store.Sample
	var version int64
	newer := func(p []store.Sample) bool {
		if len(p) == 0 {
			return false
		}
		return len(last) == 0 || p[len(p)-1].StartUS > last[len(last)-1].StartUS
	}
	versions := []int64{c.version} // at equal times this one
	for _, p := range spans {
		versions = append(versions, p.Version)
	}
	for _, v := range versions {
		got, err := blocks(ctx, s, c.model, v, from, to, step)
		if err != nil {
			return nil, 0, err
		}
		if newer(got) {
			last, version = got, v
		}
	}
	recent := slices.DeleteFunc(slices.Clone(last), func(p store.Sample) bool { return p.StartUS < c.sinceUS })
	if len(recent) >= leastBlocks {
		last = recent
	}
	return last, version, nil
}

// slower compares the times of requests that succeeded.
func (a *Alert) slower(before, now []store.Sample) bool {
	usual := make([]float64, 0, len(now))
	for i := range now {
		usual = append(usual, float64(counted(&now[i])))
	}
	slices.Sort(usual)
	n := median(usual)
	if len(now) < leastBlocks || len(before) < leastBlocks {
		return false
	}
	x, y := similar(before, n), similar(now, n)
	if len(x) < leastBlocks || len(y) < leastBlocks {
		return false
	}
	factor, least := ratio(x, y)
	slices.Sort(x)
	slices.Sort(y)
	a.Value, a.BeforeUS, a.NowUS = factor, median(x)/1000, median(y)/1000
	return factor >= slower && least >= surely
}

// similar returns the mean times of the periods, in nanoseconds, that have about n requests.
func similar(samples []store.Sample, n float64) (out []float64) {
	for i := range samples {
		p := &samples[i]
		if c := float64(counted(p)); c >= n/2 && c <= n*2 && p.Successes > 0 && p.RequestNS > 0 {
			out = append(out, float64(p.RequestNS)/float64(p.Successes))
		}
	}
	return out
}

// fails compares the shares of failures.
func (a *Alert) fails(before, now []store.Sample) bool {
	sum := func(samples []store.Sample) (failed, n int64) {
		for i := range samples {
			failed, n = failed+failures(&samples[i]), n+counted(&samples[i])
		}
		return failed, n
	}
	k0, n0 := sum(before)
	k1, n1 := sum(now)
	if n0 < leastRequests || n1 < leastRequests {
		return false
	}
	_, high := wilson(k0, n0)
	low, _ := wilson(k1, n1)
	a.FailuresBefore, a.FailuresNow = float64(k0)/float64(n0), float64(k1)/float64(n1)
	return low > high && a.FailuresNow-a.FailuresBefore >= worse
}

// meanCPU returns how busy the machine was, from 0 to 1; -1 if it is not known.
func meanCPU(ctx context.Context, s *store.Store, fromUS, toUS int64) (float64, error) {
	gauges, err := s.Gauges(ctx, history.CPU, "", fromUS-fromUS%time.Minute.Microseconds(), toUS)
	if err != nil || len(gauges) == 0 {
		return -1, err
	}
	sum := 0.0
	for _, g := range gauges {
		sum += g.Mean
	}
	return sum / float64(len(gauges)), nil
}

// loadedBefore returns when the load before a time was, in microseconds; 0 if it is not known.
func loadedBefore(ctx context.Context, s *store.Store, model string, beforeUS int64) (int64, error) {
	events, err := s.Events(ctx, store.EventQuery{Model: model, Kinds: []string{history.Load, history.Reload},
		ToUS: beforeUS, Limit: 1})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].TimeUS, nil
}
