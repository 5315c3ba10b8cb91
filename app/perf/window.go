package perf

import (
	"context"
	"time"
)

// measurement is the windows of one level.
type measurement struct {
	r     *run
	l     *load
	level float64
	want  int // requests of a single window; 0: windows until three agree

	windows []*Point
	bounds  []time.Time
	stable  bool
}

// watch measures windows until three agree, one of the last three exceeds the threshold, or MaxTrials is reached.
func (m *measurement) watch(ctx context.Context) error {
	o := &m.r.o
	for range o.MaxTrials {
		w, err := m.window(ctx)
		if w != nil {
			m.windows = append(m.windows, w)
			if f := o.Events.Window; f != nil {
				f(m.level, w)
			}
		}
		if err != nil {
			return err
		}
		if m.want > 0 {
			m.stable = true
			return nil
		}
		if m.stable = m.agree(!o.ThroughputOnly); m.stable || m.beyond() {
			return nil
		}
	}
	// If the server cannot keep up with the load, the latency grows while the throughput is stable.
	m.stable = m.stable || o.ThroughputOnly && m.agree(false)
	return nil
}

// window waits for the end of a window and returns its figures, also if an error ends it early.
func (m *measurement) window(ctx context.Context) (*Point, error) {
	o := &m.r.o
	w := m.point()
	var before *ServerStats
	if o.Server != nil {
		var err error
		if before, err = m.counters(ctx); err != nil {
			return nil, err
		}
	}
	m.l.rec.cut() // drops what ended between the windows
	begin := time.Now()
	if len(m.windows) == 0 {
		close(m.l.start) // after the server's counters were read
	}
	waited := m.wait(ctx, w)
	w.Tally = *m.l.rec.cut()
	w.Begin, w.End = begin, time.Now()
	w.Elapsed = w.End.Sub(begin)
	w.Windows = 1
	m.bounds = append(m.bounds, w.Begin, w.End)
	if before != nil {
		after, err := m.counters(ctx)
		if err != nil {
			return nil, err
		}
		w.Server = after.minus(before)
	}
	return w, waited
}

// counters reads the server's counters. If ctx is done, the server gets the grace period; an error is then that of ctx.
func (m *measurement) counters(ctx context.Context) (*ServerStats, error) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	s, err := snapshot(call, m.r.o.Server, &m.r.o.Model)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return s, err
}

// wait returns at the end of the window, or with an error at the end of the load or the run. It reads the metrics at
// the begin of the window, and then once per interval.
func (m *measurement) wait(ctx context.Context, w *Point) (err error) {
	o := &m.r.o
	length := o.Window
	switch {
	case m.want > 0:
		length = 1 << 62
	case o.WindowCount > 0:
		length = time.Second
	}
	end := time.NewTimer(length)
	defer end.Stop()
	var ticks <-chan time.Time
	gather := func() {
		got, failed := o.Gather()
		if err == nil {
			err = failed
		}
		w.Metrics.merge(got)
	}
	if o.Gather != nil {
		w.Metrics = Metrics{}
		gather()
		ticker := time.NewTicker(o.Interval)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-m.l.rec.done:
			return err
		case <-m.l.fail:
			return m.l.fault
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
			gather()
		case <-end.C:
			if o.WindowCount > 0 && m.l.rec.count() < uint64(o.WindowCount) {
				end.Reset(10 * time.Millisecond)
				continue
			}
			return err
		}
	}
}

func (m *measurement) point() *Point {
	o := &m.r.o
	return &Point{Level: m.level, Concurrency: o.Concurrency != nil, Batch: max(1, o.Batch), Percentile: o.Percentile}
}

// recent is the windows that must agree; nil if there are not enough.
func (m *measurement) recent() []*Point {
	if len(m.windows) < stableWindows {
		return nil
	}
	return m.windows[len(m.windows)-stableWindows:]
}

// agree reports whether the recent windows differ by no more than the stability, in throughput and, if asked, latency.
func (m *measurement) agree(latency bool) bool {
	list := m.recent()
	if list == nil {
		return false
	}
	limit := 1 + m.r.o.Stability/100
	spread := func(of func(*Point) float64) bool {
		low, high := of(list[0]), of(list[0])
		for _, w := range list {
			low, high = min(low, of(w)), max(high, of(w))
		}
		return low > 0 && high/low <= limit
	}
	return spread(func(w *Point) float64 { return w.Throughput() }) &&
		(!latency || spread(func(w *Point) float64 { return float64(w.Decisive()) }))
}

// beyond reports whether one of the recent windows was over the threshold, so that more windows are of no use.
func (m *measurement) beyond() bool {
	for _, w := range m.recent() {
		if t := m.r.o.Threshold; t > 0 && w.Decisive() >= t {
			return true
		}
	}
	return false
}

// summary is the figures of the level: of the recent windows if they agree, else of all.
func (m *measurement) summary() *Point {
	p := m.point()
	p.Stable = m.stable
	list := m.windows
	if recent := m.recent(); recent != nil && m.stable {
		list = recent
	}
	for _, w := range list {
		p.merge(&w.Tally)
		p.Windows++
		if w.Server != nil {
			if p.Server == nil {
				p.Server = &ServerStats{Model: w.Server.Model}
			}
			p.Server = w.Server.plus(p.Server)
		}
		if w.Metrics != nil {
			if p.Metrics == nil {
				p.Metrics = Metrics{}
			}
			p.Metrics.merge(w.Metrics)
		}
	}
	return p
}
