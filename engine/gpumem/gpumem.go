package gpumem

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Driver is what is needed of CUDA. Safe for concurrent use. GPUs are numbered as CUDA numbers them in this process, addresses
// are those of their primary contexts.
type Driver interface {
	// Pin allocates page-locked memory of the host for all GPUs.
	Pin(n int) (address uintptr, free func() error, err error)
	// Allocate allocates memory of a GPU.
	Allocate(gpu, n int) (address uintptr, free func() error, err error)
	// Copy copies within a GPU, in any order, and returns when all is done.
	Copy(gpu int, list []Copy) error
	// Traffic tells what has been copied so far, for clients' regions too.
	Traffic() Traffic
}

// Copy is one within a GPU. The two parts do not overlap.
type Copy struct {
	To, From uintptr
	Size     int // in bytes
}

// Traffic is bytes of clients' device memory, and of what models have on GPUs, that were copied.
type Traffic struct{ ToHost, FromHost, Within int64 }

// Options of a Memory.
type Options struct {
	Driver Driver
	// PinnedBytes bounds the pinned memory of each NUMA node that a host policy names, and of those without together:
	// --pinned-memory-pool-byte-size. 0: there is none.
	PinnedBytes int64
	// DeviceBytes bounds the memory on each GPU: --cuda-memory-pool-byte-size. A GPU that is not named: DefaultDeviceBytes.
	DeviceBytes map[int]int64
	Log         *slog.Logger // nil: slog.Default
}

// The sizes of the pools where no option names any; they are Triton's.
const (
	DefaultPinnedBytes = 256 << 20
	DefaultDeviceBytes = 64 << 20
)

// Memory is the pools of a process. Safe for concurrent use. Close it when the models are gone.
type Memory struct {
	o Options

	mu      sync.Mutex
	pinned  map[int]*pool // guarded by mu, as is the next: by NUMA node
	devices map[int]*pool // by GPU

	boundIn, boundOut atomic.Int64
}

// New returns pools that are not allocated yet.
func New(o Options) *Memory {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Memory{o: o, devices: map[int]*pool{}, pinned: map[int]*pool{}}
}

// Block is a part of a pool. Who got it gives it back with Free, once.
type Block struct {
	Address uintptr // a multiple of 256
	Size    int     // in bytes
	pool    *pool
	span    span
}

// Free gives the block back. nil is none.
func (b *Block) Free() {
	if b != nil {
		b.pool.put(b.span)
	}
}

// Bytes returns the content of a block of pinned memory.
func (b *Block) Bytes() []byte {
	return unsafe.Slice((*byte)(pointer(b.Address)), b.Size)
}

// pointer makes a pointer of an address that is not Go's.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// AnyNode stands for memory of any NUMA node.
const AnyNode = -1

// Pinned returns n bytes of the pinned host memory of a NUMA node, nil if there are none to be had. Their content is not cleared.
func (m *Memory) Pinned(node, n int) *Block {
	if m == nil {
		return nil
	}
	return m.hosts(node).get(n)
}

// Reserve allocates the pinned memory of a NUMA node, unless that has been done. The system takes it from the node that the
// calling thread's memory comes from, so the thread must keep to it.
func (m *Memory) Reserve(node int) {
	if m == nil {
		return
	}
	if p := m.hosts(node); p.limit >= grain {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.allocated()
		}
	}
}

func (m *Memory) hosts(node int) *pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pinned[node]
	if p == nil {
		name := "pinned host memory"
		if node != AnyNode {
			name += fmt.Sprintf(" of NUMA node %d", node)
		}
		p = &pool{name: name, limit: m.o.PinnedBytes, reserve: m.o.Driver.Pin, log: m.o.Log}
		m.pinned[node] = p
	}
	return p
}

// Device returns n bytes of a GPU's memory, nil if there are none to be had.
func (m *Memory) Device(gpu, n int) *Block {
	if m == nil {
		return nil
	}
	return m.device(gpu).get(n)
}

func (m *Memory) device(gpu int) *pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.devices[gpu]
	if p == nil {
		limit, ok := m.o.DeviceBytes[gpu]
		if !ok {
			limit = DefaultDeviceBytes
		}
		p = &pool{name: fmt.Sprintf("memory of GPU %d", gpu), limit: limit, log: m.o.Log,
			reserve: func(n int) (uintptr, func() error, error) { return m.o.Driver.Allocate(gpu, n) }}
		m.devices[gpu] = p
	}
	return p
}

// Copy copies within a GPU and returns when all is done.
func (m *Memory) Copy(gpu int, list []Copy) error {
	if m == nil {
		return errors.New("there is no GPU")
	}
	return m.o.Driver.Copy(gpu, list)
}

// Bound counts bytes that a model read or wrote where they are: in a client's region.
func (m *Memory) Bound(output bool, n int) {
	if output {
		m.boundOut.Add(int64(n))
	} else {
		m.boundIn.Add(int64(n))
	}
}

// PoolStats describes a pool. Total is its bound, whether it is allocated yet or not.
type PoolStats struct {
	Total, Used int64 // bytes
	Misses      int64 // how often somebody got nothing
}

// Stats is what has become of the memory.
type Stats struct {
	Pinned                    PoolStats         // of all NUMA nodes together
	Devices                   map[int]PoolStats // of the GPUs that something was wanted of
	Traffic                   Traffic
	BoundInputs, BoundOutputs int64 // bytes that models read and wrote where clients have them
}

// Stats returns the figures of now.
func (m *Memory) Stats() Stats {
	s := Stats{Devices: map[int]PoolStats{}, Traffic: m.o.Driver.Traffic(), BoundInputs: m.boundIn.Load(), BoundOutputs: m.boundOut.Load()}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pinned {
		one := p.stats()
		s.Pinned.Total += one.Total
		s.Pinned.Used += one.Used
		s.Pinned.Misses += one.Misses
	}
	if len(m.pinned) == 0 {
		s.Pinned.Total = m.o.PinnedBytes
	}
	for gpu, p := range m.devices {
		s.Devices[gpu] = p.stats()
	}
	return s
}

// Close gives the pools back, each when its last block is free.
func (m *Memory) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pinned {
		p.close()
	}
	for _, p := range m.devices {
		p.close()
	}
}
