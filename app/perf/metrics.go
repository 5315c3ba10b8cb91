package perf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Gauge is what a metric showed by GPU, over several readings.
type Gauge map[string]Reading

// Reading is the readings of one value.
type Reading struct {
	Count           int
	Sum, Max, First float64
}

// Metrics are those of the GPUs that the server tells of at /metrics.
type Metrics struct {
	Utilization, Power, UsedMemory, TotalMemory Gauge // fractions, watts, bytes, bytes
}

// gauges is each metric by the name that the server gives it.
func (m *Metrics) gauges() map[string]*Gauge {
	return map[string]*Gauge{
		"nv_gpu_utilization": &m.Utilization, "nv_gpu_power_usage": &m.Power,
		"nv_gpu_memory_used_bytes": &m.UsedMemory, "nv_gpu_memory_total_bytes": &m.TotalMemory,
	}
}

func (m *Metrics) merge(o *Metrics) {
	theirs := o.gauges()
	for name, g := range m.gauges() {
		for gpu, r := range *theirs[name] {
			if *g == nil {
				*g = Gauge{}
			}
			(*g)[gpu] = (*g)[gpu].merge(r)
		}
	}
}

func (r Reading) merge(o Reading) Reading {
	switch {
	case r.Count == 0:
		return o
	case o.Count == 0:
		return r
	}
	return Reading{Count: r.Count + o.Count, Sum: r.Sum + o.Sum, Max: max(r.Max, o.Max), First: r.First}
}

// Mean is the average of the readings.
func (r Reading) Mean() float64 {
	if r.Count == 0 {
		return 0
	}
	return r.Sum / float64(r.Count)
}

// ParseMetrics reads the metrics of the GPUs from Prometheus's text; others are passed over.
func ParseMetrics(text io.Reader) (Metrics, error) {
	var m Metrics
	gauges := m.gauges()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		g := gauges[name]
		if !ok || g == nil {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		if end < 0 {
			return m, fmt.Errorf("metric %s: the labels in %q do not end", name, lines.Text())
		}
		_, gpu, ok := strings.Cut(rest[:end], `gpu_uuid="`)
		gpu, _, closed := strings.Cut(gpu, `"`)
		fields := strings.Fields(rest[end+1:])
		if !ok || !closed || len(fields) == 0 {
			return m, fmt.Errorf("metric %s: %q has no gpu_uuid or no value", name, lines.Text())
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return m, fmt.Errorf("metric %s: %q is no number", name, fields[0])
		}
		if *g == nil {
			*g = Gauge{}
		}
		(*g)[gpu] = (*g)[gpu].merge(Reading{Count: 1, Sum: v, Max: v, First: v})
	}
	return m, lines.Err()
}

// Scrape returns a function that reads the metrics at a URL.
func Scrape(ctx context.Context, c *http.Client, url string) func() (Metrics, error) {
	return func() (Metrics, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return Metrics{}, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return Metrics{}, fmt.Errorf("the server's metrics: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return Metrics{}, fmt.Errorf("the server's metrics: GET %s answers %s", url, resp.Status)
		}
		return ParseMetrics(resp.Body)
	}
}

// gatherer reads the metrics during one window, at its begin and then once an interval.
type gatherer struct {
	o      *Options
	ticker *time.Ticker
	m      Metrics
	err    error
}

func (g *gatherer) start() <-chan time.Time {
	if g.o.Gather == nil {
		return nil
	}
	g.gather()
	g.ticker = time.NewTicker(g.o.Interval)
	return g.ticker.C
}

func (g *gatherer) stop() {
	if g.ticker != nil {
		g.ticker.Stop()
	}
}

func (g *gatherer) gather() {
	m, err := g.o.Gather()
	if err != nil && g.err == nil {
		g.err = err
	}
	g.m.merge(&m)
}

func (g *gatherer) sum() *Metrics {
	if g.o.Gather == nil {
		return nil
	}
	return &g.m
}
