package perf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Gauge has the readings of one metric, by the UUID of the GPU.
type Gauge map[string]Reading

// Reading summarizes several readings of one value.
type Reading struct {
	Count           int
	Sum, Max, First float64
}

// The metrics of the server's GPUs, by the server's names.
const (
	GPUUtilization = "nv_gpu_utilization" // a fraction
	GPUPower       = "nv_gpu_power_usage" // watts
	GPUUsedMemory  = "nv_gpu_memory_used_bytes"
	GPUTotalMemory = "nv_gpu_memory_total_bytes"
)

// Metrics are gauges by the names of the constants above.
type Metrics map[string]Gauge

func (m Metrics) add(name, gpu string, r Reading) {
	if m[name] == nil {
		m[name] = Gauge{}
	}
	m[name][gpu] = m[name][gpu].merge(r)
}

func (m Metrics) merge(o Metrics) {
	for name, gauge := range o {
		for gpu, r := range gauge {
			m.add(name, gpu, r)
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

// ParseMetrics reads the metrics of the GPUs from Prometheus's text format. It skips other metrics.
func ParseMetrics(text io.Reader) (Metrics, error) {
	m := Metrics{}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		if !ok || !slices.Contains([]string{GPUUtilization, GPUPower, GPUUsedMemory, GPUTotalMemory}, name) {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		if end < 0 {
			return m, fmt.Errorf("metric %s: the labels in %q have no closing brace", name, lines.Text())
		}
		_, gpu, ok := strings.Cut(rest[:end], `gpu_uuid="`)
		gpu, _, closed := strings.Cut(gpu, `"`)
		fields := strings.Fields(rest[end+1:])
		if !ok || !closed || len(fields) == 0 {
			return m, fmt.Errorf("metric %s: %q has no gpu_uuid or no value", name, lines.Text())
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return m, fmt.Errorf("metric %s: %q is not a number", name, fields[0])
		}
		m.add(name, gpu, Reading{Count: 1, Sum: v, Max: v, First: v})
	}
	return m, lines.Err()
}

// Scrape returns a function that reads the metrics at a URL.
func Scrape(ctx context.Context, c *http.Client, url string) func() (Metrics, error) {
	return func() (Metrics, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, fmt.Errorf("the server's metrics: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server's metrics: GET %s answers %s", url, resp.Status)
		}
		return ParseMetrics(resp.Body)
	}
}
