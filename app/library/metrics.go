package main

import (
	"sync"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/metrics/custom"
	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

// metrics are those that the program makes. As in Triton they belong to the process: all its servers show them, with
// those that their models make.
type metrics struct {
	registry custom.Registry

	mu       sync.Mutex
	last     uint64 // number; guarded by mu, as is the rest
	families map[uint64]*custom.Family
	values   map[uint64]*custom.Metric
}

var _ capi.Metrics = (*metrics)(nil)

var made = metrics{families: map[uint64]*custom.Family{}, values: map[uint64]*custom.Metric{}}

var kinds = map[capi.MetricKind]custom.Kind{
	capi.Counter: custom.Counter, capi.Gauge: custom.Gauge, capi.Histogram: custom.Histogram,
}

// Family implements capi.Metrics.
func (m *metrics) Family(kind capi.MetricKind, name, description string) (uint64, error) {
	f, err := m.registry.Family(name, description, kinds[kind])
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.families[m.last] = f
	return m.last, nil
}

// Metric implements capi.Metrics.
func (m *metrics) Metric(family uint64, labels map[string]string, buckets []float64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.families[family]
	if f == nil {
		return 0, status.New(status.NotFound, "the metric family was deleted")
	}
	v, err := f.Metric(labels, buckets)
	if err != nil {
		return 0, err
	}
	m.last++
	m.values[m.last] = v
	return m.last, nil
}

// DeleteMetric implements capi.Metrics.
func (m *metrics) DeleteMetric(number uint64, family bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.families[number]; family && f != nil {
		delete(m.families, number)
		f.Close()
	} else if v := m.values[number]; !family && v != nil {
		delete(m.values, number)
		v.Close()
	}
	return nil
}

func (m *metrics) value(number uint64) *custom.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[number]
}

// MetricValue implements capi.Metrics.
func (m *metrics) MetricValue(number uint64) (float64, error) {
	if v := m.value(number); v != nil {
		return v.Value()
	}
	return 0, status.New(status.NotFound, "the metric was deleted")
}

// ChangeMetric implements capi.Metrics. The shim has checked that the kind of the metric allows op.
func (m *metrics) ChangeMetric(number uint64, op uint32, value float64) {
	v, err := m.value(number), error(nil)
	switch {
	case v == nil:
	case op == frames.MetricIncrement:
		err = v.Increment(value)
	case op == frames.MetricSet:
		err = v.Set(value)
	default:
		err = v.Observe(value)
	}
	if err != nil {
		logger().Warn("a metric was not changed", "err", err)
	}
}
