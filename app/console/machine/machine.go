package machine

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/engine"
	"nereid/engine/device"
	"nereid/engine/lifecycle"
	"nereid/engine/residency"
	"nereid/engine/system/affinity"
)

// Monitor reads the machine's load and memory.
type Monitor struct {
	Engine       *engine.Engine
	GPUs         *device.Machine            // those that models may use; nil: none
	HostPolicies map[string]affinity.Policy // those that models may name

	cpu cpuLoad
}

// cpuLoad is how busy the cores are between readings.
type cpuLoad struct {
	mu   sync.Mutex
	last device.HostUse // guarded by mu, as are the next
	at   time.Time
	busy *float64
}

// update returns the share of the cores that was busy since the reading before u. Readings less than half a second
// apart say little: then the value stays as it is.
func (l *cpuLoad) update(u device.HostUse) *float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < 500*time.Millisecond {
		return l.busy
	}
	l.busy = nil
	if d := u.Total - l.last.Total; l.last.Total > 0 && d > 0 {
		l.busy = new(min(1, max(0, float64(u.Busy-l.last.Busy)/float64(d))))
	}
	l.last, l.at = u, time.Now()
	return l.busy
}

// Machine serves the present state.
func (m *Monitor) Machine(*http.Request) (api.Machine, error) { return m.Read(), nil }

// Read returns the present state of the machine.
func (m *Monitor) Read() api.Machine {
	use := device.Host()
	r := m.Engine.Residency()
	out := api.Machine{
		TMs: time.Now().UnixMilli(), CPUs: runtime.NumCPU(), CPUBusy: m.cpu.update(use), MemoryBytes: use.Memory,
		MemoryFreeBytes: use.Free, ProcessBytes: process().RSSBytes, ModelBytes: r.Used.Host,
		Budget: api.Budget{On: r.On, Bytes: r.Budget.Host, IdleMs: r.Budget.Idle.Milliseconds()},
	}
	for _, name := range slices.Sorted(maps.Keys(m.HostPolicies)) {
		out.HostPolicies = append(out.HostPolicies, api.HostPolicy{Name: name, Affinity: m.HostPolicies[name].String()})
	}
	readings, errs := m.GPUs.Readings()
	for i, g := range m.GPUs.GPUs() {
		out.GPUs = append(out.GPUs, apiGPU(g, readings[i], errs[i], r))
	}
	for _, st := range m.Engine.Models() {
		if st.Pinned {
			out.Budget.Pinned++
		}
		switch {
		case slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool { return v.Model != nil }):
			out.Budget.Resident++
		case slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool { return v.Evicted }):
			out.Budget.Evicted++
		}
	}
	return out
}

func apiGPU(g device.GPU, now device.Reading, err error, r residency.Status) api.GPU {
	out := api.GPU{
		Index: g.Index, Physical: g.Physical, UUID: g.UUID, Name: g.Name, Capability: fmt.Sprintf("%d.%d", g.Major,
			g.Minor),
		MemoryBytes: int64(g.MemoryBytes), ModelBytes: r.Used.GPU[g.Index], BudgetBytes: r.Budget.GPU[g.Index],
	}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if now.Known&device.HasMemory != 0 {
		out.UsedBytes = new(int64(now.MemoryUsed))
	}
	known := func(f device.Figures, v float64) *float64 {
		if now.Known&f == 0 {
			return nil
		}
		return &v
	}
	out.Utilization = known(device.HasUtilization, now.Utilization)
	out.PowerW = known(device.HasPower, now.Power)
	out.Celsius = known(device.HasTemperature, now.Temperature)
	return out
}
