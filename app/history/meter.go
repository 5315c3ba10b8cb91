package history

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nereid/engine/stats"
	"nereid/store"
)

// The names of readings.
const (
	CPU    = "cpu"    // of the machine: the share of its cores that is busy
	Memory = "memory" // bytes in use: of the machine, or of a model
	GPU    = "gpu"    // with a number behind it: the share of the time in which the GPU is busy
	// GPUMemory: bytes in use, of a GPU with a number behind it, or of a model on all GPUs.
	GPUMemory = "gpu_memory"
)

// Reading is what the machine or a model takes now.
type Reading struct {
	Name  string
	Model string // "" for the machine
	Value float64
}

// meterEvery is the time between two readings. They are cheap, but a model's memory takes a look at its processes. They
// are made at full multiples, at which a Recorder that rests looks, so that an idle server wakes up once for both.
const meterEvery = 10 * time.Second

// Meter records what the machine and the models take: the mean and the most of each minute, so that figures of the
// past can be seen beside the load of the machine.
type Meter struct {
	// Read returns the readings. A reading that is not known is left out.
	Read func() []Reading
	Keep func(context.Context, []store.Gauge) error // such as Store.AddGauges
	Log  *slog.Logger

	mu   sync.Mutex
	last []Reading // guarded by mu
}

// Last returns the readings of the last ten seconds. The caller must not change them.
func (m *Meter) Last() []Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Run reads until ctx is done. It stores a minute when it is over, and the last one, which is not complete.
func (m *Meter) Run(ctx context.Context) error {
	timer := time.NewTimer(stats.UntilNext(meterEvery, time.Now()))
	defer timer.Stop()
	minute := minuteOf{start: time.Now().Truncate(time.Minute)}
	for {
		select {
		case <-ctx.Done():
			m.keep(&minute)
			return nil
		case <-timer.C:
			now := time.Now()
			timer.Reset(stats.UntilNext(meterEvery, now))
			if start := now.Truncate(time.Minute); !start.Equal(minute.start) {
				m.keep(&minute)
				minute = minuteOf{start: start}
			}
			readings := m.Read()
			minute.add(readings)
			m.mu.Lock()
			m.last = readings
			m.mu.Unlock()
		}
	}
}

func (m *Meter) keep(minute *minuteOf) {
	if err := m.Keep(context.Background(), minute.gauges()); err != nil {
		m.Log.Warn("the load of the machine is not recorded", "err", err)
	}
}

// minuteOf adds up the readings of a minute.
type minuteOf struct {
	start time.Time
	sums  map[gaugeKey]*gaugeSum
}

type gaugeKey struct{ name, model string }

type gaugeSum struct {
	n         int
	sum, most float64
}

func (m *minuteOf) add(readings []Reading) {
	if m.sums == nil {
		m.sums = map[gaugeKey]*gaugeSum{}
	}
	for _, r := range readings {
		k := gaugeKey{r.Name, r.Model}
		s := m.sums[k]
		if s == nil {
			s = &gaugeSum{most: r.Value}
			m.sums[k] = s
		}
		s.n++
		s.sum += r.Value
		s.most = max(s.most, r.Value)
	}
}

func (m *minuteOf) gauges() (out []store.Gauge) {
	for k, s := range m.sums {
		out = append(out, store.Gauge{Name: k.name, Model: k.model, StartUS: m.start.UnixMicro(),
			Mean: s.sum / float64(s.n), Most: s.most})
	}
	return out
}
