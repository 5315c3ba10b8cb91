package device

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrNotTold is what a driver answers that does not tell what processes take of a card.
var ErrNotTold = errors.New("the driver does not tell what processes take")

// ProcessReader is a Driver that knows what processes take of a card's memory.
type ProcessReader interface {
	// Processes returns the bytes by process. Errors: ErrNotTold; or the card cannot be reached.
	Processes(uuid string) (map[int]uint64, error)
}

// GroupMemory returns what process groups take of each GPU on which they take something, by Index. A process of a model leads
// a group, which those that it starts belong to. The driver is asked unless it just was. Where that does not tell, or counts
// processes in another namespace than this one, nothing is found.
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

// justNow is how old what processes take may be: who asks for many models asks the driver once.
const justNow = 20 * time.Millisecond

// tally is what process groups took of each GPU, in the order of Machine.gpus.
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
	if t.all != nil && time.Since(t.at) < justNow {
		return t.all
	}
	t.all = make([]map[int]int64, len(m.gpus)) // the old ones may be in use
	for i, g := range m.gpus {
		t.all[i] = map[int]int64{}
		all, err := driver.Processes(g.UUID)
		if err != nil {
			continue // Readings says what is wrong with the card
		}
		for pid, n := range all {
			t.all[i][groupOf(pid)] += int64(n)
		}
	}
	t.at = time.Now()
	return t.all
}

// loads counts what is loaded onto GPUs, by Index, so that what one load takes can be told from another's.
type loads struct {
	mu    sync.Mutex
	now   map[int]int // that have begun and not ended
	begun map[int]int
}

// Watch is one load onto GPUs that is watched.
type Watch struct {
	m      *Machine
	before map[int]int64 // of the GPUs that can still be told apart
	begun  map[int]int
	gpus   []int
}

// Watch begins to watch the memory of GPUs while something is loaded there. The caller calls End once.
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
		if n, ok := m.memoryUsed(i); ok && alone {
			w.before[i] = n
		}
	}
	return w
}

// End returns by how much the memory in use of the GPUs has grown since Watch: of those onto which nothing else was loaded
// meanwhile, and whose memory did not shrink. What other programs do there is counted, too. GroupMemory asks the driver anew.
func (w *Watch) End() map[int]int64 {
	grown := map[int]int64{}
	if w.m == nil {
		return grown
	}
	w.m.tally.mu.Lock()
	w.m.tally.all = nil
	w.m.tally.mu.Unlock()
	for _, i := range w.gpus {
		n, ok := w.m.memoryUsed(i)
		w.m.loads.mu.Lock()
		w.m.loads.now[i]--
		alone := w.m.loads.begun[i] == w.begun[i]
		w.m.loads.mu.Unlock()
		if before, was := w.before[i]; ok && was && alone && n >= before {
			grown[i] = n - before
		}
	}
	return grown
}

// memoryUsed asks the driver how much of a GPU's memory is in use.
func (m *Machine) memoryUsed(index int) (int64, bool) {
	i := slices.IndexFunc(m.gpus, func(g GPU) bool { return g.Index == index })
	if i < 0 {
		return 0, false
	}
	r, err := m.o.Driver.Read(m.gpus[i].UUID)
	if err != nil || r.Known&HasMemory == 0 {
		return 0, false
	}
	return int64(r.MemoryUsed), true
}
