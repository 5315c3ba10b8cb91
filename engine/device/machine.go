package device

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CUDAOrder is the environment variable that says how CUDA numbers GPUs.
const CUDAOrder = "CUDA_DEVICE_ORDER"

// GPU is a GPU that this process may use.
type GPU struct {
	// Index is its number in the configuration of models and in options: its place among those that this process may
	// use, as in CUDA.
	Index int
	// Physical is its number on the machine, or in the container, as nvidia-smi shows it.
	Physical int
	UUID     string
	Name     string
	// Bus is its PCI address.
	Bus string
	// Major and Minor are its CUDA compute capability.
	Major, Minor int
	MemoryBytes  uint64
}

// Capability returns the compute capability as one number, as Triton compares it: 8.6.
func (g GPU) Capability() float64 { return float64(g.Major) + float64(g.Minor)/10 }

// Reading is the current state of a GPU. Figures that the driver does not report are missing in Known.
type Reading struct {
	Utilization             float64 // 0 to 1
	MemoryUsed, MemoryTotal uint64  // bytes
	Power, PowerLimit       float64 // W
	Energy                  float64 // J, since the driver was loaded
	Temperature             float64 // degrees Celsius
	Known                   Figures
}

// Figures is a set of a Reading's fields.
type Figures uint8

// The figures.
const (
	HasUtilization Figures = 1 << iota
	HasMemory
	HasPower
	HasPowerLimit
	HasEnergy
	HasTemperature
)

// Driver gives access to the GPUs of the machine. Its methods must be safe for concurrent use.
type Driver interface {
	// GPUs returns all GPUs, sorted by PCI address. Index is not set.
	GPUs() ([]GPU, error)
	// Read returns the state of one. An error means that it cannot be reached.
	Read(uuid string) (Reading, error)
	Close() error
}

// DefaultMinCapability is the default of the least compute capability that is used. It is Triton's.
const DefaultMinCapability = 6.0

// Options choose the GPUs.
type Options struct {
	// Driver is nil on a machine without GPUs.
	Driver Driver
	// Visible is the value of CUDA_VISIBLE_DEVICES; nil: it is not set, and all GPUs are visible.
	Visible *string
	// MinCapability is the least compute capability that is used.
	MinCapability float64
	// ReadEvery is the greatest age of a reading. 0: 2 s.
	ReadEvery time.Duration
	Log       *slog.Logger
}

// Machine is the set of GPUs that models may use. Its methods are safe for concurrent use. A nil Machine has none.
type Machine struct {
	o    Options
	gpus []GPU

	loads loads
	tally tally

	mu       sync.Mutex    // guards all below
	reading  chan struct{} // closed when the driver has answered; nil: nobody asks it
	read     time.Time
	readings []Reading
	errs     []error
	energy   []float64 // of each GPU at the first reading
}

// NewMachine finds the GPUs. As for CUDA, the set does not change while the process runs.
func NewMachine(o Options) (*Machine, error) {
	if o.Driver == nil {
		return &Machine{o: o}, nil
	}
	o.ReadEvery = cmp.Or(o.ReadEvery, defaultReadInterval)
	all, err := o.Driver.GPUs()
	if err != nil {
		return nil, fmt.Errorf("the GPUs cannot be listed: %w", err)
	}
	for i := range all {
		all[i].Physical = i
	}
	visible := all
	if o.Visible != nil {
		if visible, err = choose(all, *o.Visible); err != nil {
			o.Log.Warn("CUDA_VISIBLE_DEVICES is wrong", "value", *o.Visible, "err", err, "gpus", len(visible))
		}
	}
	m := &Machine{o: o, loads: loads{now: map[int]int{}, begun: map[int]int{}}}
	for i, g := range visible {
		g.Index = i
		if g.Capability()+1e-9 < o.MinCapability {
			o.Log.Warn("a GPU is not used: its compute capability is below --min-supported-compute-capability",
				"gpu", i, "uuid", g.UUID, "name", g.Name, "capability", g.Capability(), "minimum", o.MinCapability)
			continue
		}
		m.gpus = append(m.gpus, g)
	}
	m.Readings()
	return m, nil
}

// choose returns the GPUs that CUDA_VISIBLE_DEVICES names, in its order: by number or by the beginning of the UUID.
// As in CUDA, GPUs after an unknown name are not visible, and a GPU that is named twice hides all. Both return an
// error.
func choose(all []GPU, value string) ([]GPU, error) {
	var list []GPU
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		i := -1
		if n, err := strconv.Atoi(name); err == nil {
			if n < 0 {
				return list, nil // a common way to end the list
			}
			i = n
		} else if strings.HasPrefix(name, "GPU-") {
			i = slices.IndexFunc(all, func(g GPU) bool { return strings.HasPrefix(g.UUID, name) })
			if i >= 0 && slices.ContainsFunc(all[i+1:], func(g GPU) bool { return strings.HasPrefix(g.UUID, name) }) {
				return list, fmt.Errorf("%q fits several GPUs", name)
			}
		} else if strings.HasPrefix(name, "MIG-") {
			return list, fmt.Errorf("%q is a part of a GPU (MIG), which is not supported; name whole GPUs", name)
		}
		if i < 0 || i >= len(all) {
			return list, fmt.Errorf("%q is none of the %d GPUs; those after it are not used", name, len(all))
		}
		if slices.ContainsFunc(list, func(g GPU) bool { return g.UUID == all[i].UUID }) {
			return nil, fmt.Errorf("%q is named twice, so CUDA sees no GPU at all", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}

// GPUs returns the GPUs that models may use, sorted by Index. The caller must not change the slice.
func (m *Machine) GPUs() []GPU {
	if m == nil {
		return nil
	}
	return m.gpus
}

// IDs returns their numbers.
func (m *Machine) IDs() (ids []int32) {
	for _, g := range m.GPUs() {
		ids = append(ids, int32(g.Index))
	}
	return ids
}

// MinCapability returns the least compute capability that is used.
func (m *Machine) MinCapability() float64 {
	if m == nil {
		return DefaultMinCapability
	}
	return m.o.MinCapability
}

// readLimit is how long Readings waits for the driver.
const readLimit = time.Second

var errHangs = errors.New("the driver does not answer")

// Readings returns the state of each GPU, and for one that cannot be read the error. The readings are not older than
// Options.ReadEvery. Energy counts from the start of this process. A GPU that can no longer be reached is logged
// once, and again when it can be reached. So are all of them if the driver does not answer within a second.
func (m *Machine) Readings() ([]Reading, []error) {
	if m == nil || len(m.gpus) == 0 {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readings == nil || time.Since(m.read) >= m.o.ReadEvery {
		m.refresh()
	}
	return slices.Clone(m.readings), slices.Clone(m.errs)
}

// refresh asks the driver, unless an earlier question is open. m.mu is held, but not while it waits.
func (m *Machine) refresh() {
	if m.readings == nil {
		m.readings, m.errs = make([]Reading, len(m.gpus)), make([]error, len(m.gpus))
		m.energy = make([]float64, len(m.gpus))
	}
	if m.reading == nil {
		m.reading = make(chan struct{})
		go m.ask(m.reading) // nothing ends a driver that hangs
	}
	reading := m.reading
	m.mu.Unlock()
	limit := time.NewTimer(readLimit)
	defer limit.Stop()
	select {
	case <-reading:
	case <-limit.C:
	}
	m.mu.Lock()
	if m.reading == reading {
		m.read = time.Now()
		for i := range m.gpus {
			m.set(i, Reading{}, errHangs)
		}
	}
}

// ask reads the state of each GPU from the driver.
func (m *Machine) ask(done chan struct{}) {
	found, errs := make([]Reading, len(m.gpus)), make([]error, len(m.gpus))
	for i, g := range m.gpus {
		found[i], errs[i] = m.o.Driver.Read(g.UUID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.reading = time.Now(), nil
	for i := range m.gpus {
		m.set(i, found[i], errs[i])
	}
	close(done)
}

// set keeps a reading. m.mu is held.
func (m *Machine) set(i int, r Reading, err error) {
	g := m.gpus[i]
	switch {
	case err != nil && m.errs[i] == nil:
		m.o.Log.Error("a GPU cannot be reached", "gpu", g.Index, "uuid", g.UUID, "name", g.Name, "err", err)
	case err == nil && m.errs[i] != nil:
		m.o.Log.Info("a GPU can be reached again", "gpu", g.Index, "uuid", g.UUID, "name", g.Name)
	}
	if r.Known&HasEnergy != 0 {
		if m.energy[i] == 0 || r.Energy < m.energy[i] { // the first time, or the driver was loaded again
			m.energy[i] = r.Energy
		}
		r.Energy -= m.energy[i]
	}
	m.readings[i], m.errs[i] = r, err
}

// MemoryShare returns the share of a GPU's memory that is in use, 0 to 1. ok is false if that is not known.
func (m *Machine) MemoryShare(index int) (share float64, ok bool) {
	r, ok := m.memory(index)
	if !ok || r.MemoryTotal == 0 {
		return 0, false
	}
	return float64(r.MemoryUsed) / float64(r.MemoryTotal), true
}

// memory reads the state of a GPU from the driver. ok is false if its memory is not known.
func (m *Machine) memory(index int) (r Reading, ok bool) {
	for _, g := range m.GPUs() {
		if g.Index == index {
			r, err := m.o.Driver.Read(g.UUID)
			return r, err == nil && r.Known&HasMemory != 0
		}
	}
	return r, false
}

// Close closes the driver.
func (m *Machine) Close() error {
	if m == nil || m.o.Driver == nil {
		return nil
	}
	return m.o.Driver.Close()
}
