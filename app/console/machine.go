package console

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/engine/backend"
	"nereid/engine/backend/python"
	"nereid/engine/device"
	"nereid/engine/lifecycle"
)

// machineEvery is how often the readers of the topic machine are told.
const machineEvery = 2 * time.Second

// load is how busy the cores are between readings.
type load struct {
	mu   sync.Mutex
	last device.HostUse // guarded by mu, as are the next
	at   time.Time
	busy *float64
}

// of returns the share of the cores that was busy since the reading before u. Readings less than half a second apart say
// little: then it is what it was.
func (l *load) of(u device.HostUse) *float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < 500*time.Millisecond {
		return l.busy
	}
	l.busy = nil
	if d := u.Total - l.last.Total; l.last.Total > 0 && d > 0 {
		share := min(1, max(0, float64(u.Busy-l.last.Busy)/float64(d)))
		l.busy = &share
	}
	l.last, l.at = u, time.Now()
	return l.busy
}

func (c *Console) getMachine(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, c.machine())
}

func (c *Console) machine() api.Machine {
	use := device.Host()
	r := c.o.Engine.Residency()
	out := api.Machine{TMs: time.Now().UnixMilli(), CPUs: runtime.NumCPU(), CPUBusy: c.load.of(use), MemoryBytes: use.Memory,
		MemoryFreeBytes: use.Free, ProcessBytes: process().RSSBytes, ModelBytes: r.Used.Host,
		Budget: api.Budget{On: r.On, Bytes: r.Budget.Host, IdleMs: r.Budget.Idle.Milliseconds()}}
	for _, name := range slices.Sorted(maps.Keys(c.o.HostPolicies)) {
		out.HostPolicies = append(out.HostPolicies, api.HostPolicy{Name: name, Affinity: c.o.HostPolicies[name].String()})
	}
	readings, errs := c.o.Machine.Readings()
	for i, g := range c.o.Machine.GPUs() {
		out.GPUs = append(out.GPUs, apiGPU(g, readings[i], errs[i], r))
	}
	for _, m := range c.o.Engine.Models() {
		if m.Pinned {
			out.Budget.Pinned++
		}
		in, evicted := false, false
		for _, v := range m.Versions {
			in, evicted = in || v.Model != nil, evicted || v.Evicted
		}
		switch {
		case in:
			out.Budget.Resident++
		case evicted:
			out.Budget.Evicted++
		}
	}
	return out
}

func apiGPU(g device.GPU, now device.Reading, err error, r lifecycle.ResidencyStatus) api.GPU {
	out := api.GPU{Index: g.Index, Physical: g.Physical, UUID: g.UUID, Name: g.Name, Capability: fmt.Sprintf("%d.%d", g.Major, g.Minor),
		MemoryBytes: int64(g.MemoryBytes), ModelBytes: r.Used.GPU[g.Index], BudgetBytes: r.Budget.GPU[g.Index]}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if now.Known&device.HasMemory != 0 {
		used := int64(now.MemoryUsed)
		out.UsedBytes = &used
	}
	for _, f := range []struct {
		has device.Figures
		v   float64
		to  **float64
	}{{device.HasUtilization, now.Utilization, &out.Utilization}, {device.HasPower, now.Power, &out.PowerW}, {device.HasTemperature, now.Temperature, &out.Celsius}} {
		if now.Known&f.has != 0 {
			*f.to = &f.v
		}
	}
	return out
}

func (c *Console) getRuntime(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	st, _, err := c.locate(name)
	if err != nil {
		return err
	}
	out := api.ModelRuntime{}
	for _, v := range st.Versions {
		if v.Model == nil {
			continue
		}
		processes := map[string]backend.Process{}
		for _, p := range v.Model.Processes() {
			processes[p.Instance] = p
		}
		for _, p := range v.Model.Placements() {
			i := api.Instance{Version: strconv.FormatInt(v.Version, 10), Name: p.Name, Kind: p.Kind.String(), GPU: p.Device,
				HostPolicy: p.HostPolicy, Affinity: p.Affinity.String(), Passive: p.Passive}
			if own, ok := processes[p.Name]; ok {
				i.Process = apiWorker(own)
			}
			out.Instances = append(out.Instances, i)
		}
	}
	if c.o.Environment != nil {
		if e, ok := c.o.Environment(name); ok {
			out.Environment = apiEnvironment(e)
		}
	}
	return reply(w, out)
}

func apiWorker(p backend.Process) *api.Worker {
	w := &api.Worker{PID: p.PID, MemoryBytes: p.MemoryBytes, Ends: p.Ends, Quarantined: p.Quarantined, Output: p.Output, Before: p.Before}
	if !p.Since.IsZero() {
		w.SinceMs = p.Since.UnixMilli()
	}
	if p.Err != nil {
		w.Error = p.Err.Error()
	}
	return w
}

// shownLines is how much of an installer's log the page gets.
const shownLines = 200

func apiEnvironment(e python.EnvironmentUse) *api.Environment {
	out := &api.Environment{Kind: string(e.Kind), State: string(e.State), SinceMs: e.Since.UnixMilli(), Python: e.Python, Source: e.Source,
		Folder: e.Folder, LogPath: e.LogPath(), Log: tail(e.LogPath(), shownLines)}
	if lock := strings.TrimSpace(e.Lock()); lock != "" {
		out.Lock = strings.Split(lock, "\n")
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return out
}
