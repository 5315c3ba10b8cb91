package device

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrNotReported is returned by a driver that does not report the GPU memory of processes.
var ErrNotReported = errors.New("the driver does not report the memory of processes")

// ProcessReader is a Driver that reports how much of a GPU's memory processes use.
type ProcessReader interface {
	// Processes returns the bytes by process. Errors: ErrNotReported, others if the GPU cannot be reached.
	Processes(uuid string) (map[int]uint64, error)
}

// GroupMemory returns the bytes of GPU memory that process groups use, by the Index of the GPU. GPUs without such
// memory are missing. A process of a model leads a group, to which the processes belong that it starts. The result is
// empty if the driver does not report it, or numbers processes in another namespace.
func (m *Machine) GroupMemory(groups []int) map[int]int64 {
	if m == nil || len(groups) == 0 {
		return nil
	}
	var found map[int]int64
	for i, all := range m.groups() {
		for group, n := range all {
			if !slices.Contains(groups, group) {
				continue
			}
			if found == nil {
				found = map[int]int64{}
			}
			found[m.gpus[i].Index] += n
		}
	}
	return found
}

// tally is the memory of process groups on each GPU, in the order of Machine.gpus.
type tally struct {
	mu  sync.Mutex // guards all below
	at  time.Time
	all []map[int]int64
}

func (m *Machine) groups() []map[int]int64 {
	driver, ok := m.o.Driver.(ProcessReader)
	if !ok {
		return nil
	}
	t := &m.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all != nil && time.Since(t.at) < processInterval {
		return t.all
	}
	t.all = make([]map[int]int64, len(m.gpus)) // callers may use the old one
	for i, g := range m.gpus {
		t.all[i] = map[int]int64{}
		all, err := driver.Processes(g.UUID)
		if err != nil {
			continue // Readings reports what is wrong with the GPU
		}
		for pid, n := range all {
			t.all[i][groupOf(pid)] += int64(n)
		}
	}
	t.at = time.Now()
	return t.all
}

// loads counts the loads onto GPUs, by Index, so that the memory of one can be distinguished from that of another.
type loads struct {
	mu    sync.Mutex
	now   map[int]int // loads that have begun and not ended
	begun map[int]int // loads that have begun
}

// Watch measures one load onto GPUs.
type Watch struct {
	m      *Machine
	before map[int]int64 // bytes in use before the load, of GPUs without another load
	begun  map[int]int
	gpus   []int
}

// Watch begins to measure the memory that a load onto GPUs takes. The caller must call End once.
func (m *Machine) Watch(gpus []int) *Watch {
	w := &Watch{m: m, gpus: gpus, before: map[int]int64{}, begun: map[int]int{}}
	if m == nil {
		return w
	}
	for _, i := range gpus {
		m.loads.mu.Lock()
		alone := m.loads.now[i] == 0
		m.loads.now[i]++
		m.loads.begun[i]++
		w.begun[i] = m.loads.begun[i]
		m.loads.mu.Unlock()
		if r, ok := m.memory(i); ok && alone {
			w.before[i] = int64(r.MemoryUsed)
		}
	}
	return w
}

// End returns by how many bytes the memory in use of the GPUs has grown since Watch. GPUs are missing if something
// else was loaded onto them, or if their memory has shrunk. The memory of other programs is included. The next
// GroupMemory reads from the driver.
func (w *Watch) End() map[int]int64 {
	grown := map[int]int64{}
	if w.m == nil {
		return grown
	}
	w.m.tally.mu.Lock()
	w.m.tally.all = nil
	w.m.tally.mu.Unlock()
	for _, i := range w.gpus {
		r, ok := w.m.memory(i)
		w.m.loads.mu.Lock()
		w.m.loads.now[i]--
		alone := w.m.loads.begun[i] == w.begun[i]
		w.m.loads.mu.Unlock()
		if before, was := w.before[i]; ok && was && alone && int64(r.MemoryUsed) >= before {
			grown[i] = int64(r.MemoryUsed) - before
		}
	}
	return grown
}
