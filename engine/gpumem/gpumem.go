package gpumem

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Driver is what the package needs of CUDA. GPUs have CUDA's numbers in this process. Addresses are those of their
// primary contexts. The methods must be safe for concurrent use.
type Driver interface {
	// Pin allocates n bytes of page-locked memory of the host for all GPUs.
	Pin(n int) (address uintptr, free func() error, err error)
	// Allocate allocates n bytes of a GPU's memory.
	Allocate(gpu, n int) (address uintptr, free func() error, err error)
	// Copy makes copies within a GPU, in any order, and returns when all are done.
	Copy(gpu int, list []Copy) error
	// Traffic returns the bytes that have been copied, including those of clients' regions.
	Traffic() Traffic
}

// Copy is a copy within a GPU. Source and destination do not overlap.
type Copy struct {
	To, From uintptr
	Size     int // in bytes
}

// Traffic is the number of bytes copied to and from clients' device memory, and within GPUs.
type Traffic struct{ ToHost, FromHost, Within int64 }

// Options configure a Memory.
type Options struct {
	Driver Driver
	// PinnedBytes bounds the pinned memory of each NUMA node that a host policy names, and that of all others together:
	// --pinned-memory-pool-byte-size. 0: there is none.
	PinnedBytes int64
	// DeviceBytes bounds the memory on each GPU: --cuda-memory-pool-byte-size. The default is DefaultDeviceBytes.
	DeviceBytes map[int]int64
	// GPUs is the number of GPUs of the machine, whose pools Stats lists from the beginning.
	GPUs int
	Log  *slog.Logger // nil: slog.Default
}

// The default sizes of the pools are Triton's.
const (
	DefaultPinnedBytes = 256 << 20
	DefaultDeviceBytes = 64 << 20
)

// Memory holds the pools of a process. Its methods are safe for concurrent use. It must be closed after the models.
type Memory struct {
	o Options

	mu      sync.Mutex
	pinned  map[int]*pool // guarded by mu, as is the next: by NUMA node
	devices map[int]*pool // by GPU

	boundIn, boundOut atomic.Int64
}

// New returns a Memory whose pools are not allocated yet.
func New(o Options) *Memory {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	m := &Memory{o: o, devices: map[int]*pool{}, pinned: map[int]*pool{}}
	for gpu := range o.GPUs {
		m.devicePool(gpu)
	}
	return m
}

// Block is a part of a pool. Its owner must call Free once.
type Block struct {
	Address uintptr // a multiple of 256
	Size    int     // in bytes
	pool    *pool
	span    span
}

// Free returns the block to its pool. b may be nil.
func (b *Block) Free() {
	if b != nil {
		b.pool.put(b.span)
	}
}

// Bytes returns the content of a block of pinned memory.
func (b *Block) Bytes() []byte {
	return unsafe.Slice((*byte)(pointer(b.Address)), b.Size)
}

// pointer makes a pointer from an address outside of Go's memory.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// AnyNode is the number for memory of any NUMA node.
const AnyNode = -1

// Pinned returns n bytes of the pinned memory of a NUMA node, nil if the pool has no room. The memory is not cleared.
func (m *Memory) Pinned(node, n int) *Block {
	if m == nil {
		return nil
	}
	return m.hostPool(node).get(n)
}

// Reserve allocates the pool of a NUMA node, if that has not been done. The system takes the memory from the node of
// the calling thread, which must be bound to the node.
func (m *Memory) Reserve(node int) {
	if m == nil {
		return
	}
	if p := m.hostPool(node); p.limit >= grain {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.allocate()
		}
	}
}

func (m *Memory) hostPool(node int) *pool {
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

// Device returns n bytes of a GPU's memory, nil if the pool has no room.
func (m *Memory) Device(gpu, n int) *Block {
	if m == nil {
		return nil
	}
	return m.devicePool(gpu).get(n)
}

func (m *Memory) devicePool(gpu int) *pool {
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

// Copy makes copies within a GPU, and returns when all are done.
func (m *Memory) Copy(gpu int, list []Copy) error {
	if m == nil {
		return errors.New("there is no GPU")
	}
	return m.o.Driver.Copy(gpu, list)
}

// Bound counts n bytes that a model read or wrote directly in a client's region.
func (m *Memory) Bound(output bool, n int) {
	if output {
		m.boundOut.Add(int64(n))
	} else {
		m.boundIn.Add(int64(n))
	}
}

// PoolStats describes a pool. Total is its bound, also before it is allocated.
type PoolStats struct {
	Total, Used int64 // bytes
	Misses      int64 // requests for which there was no room
}

// Stats describes the use of the memory.
type Stats struct {
	Pinned                    PoolStats         // of all NUMA nodes together
	Devices                   map[int]PoolStats // by GPU
	Traffic                   Traffic
	BoundInputs, BoundOutputs int64 // bytes that models read and wrote directly in clients' regions
}

// Stats returns the current figures.
func (m *Memory) Stats() Stats {
	s := Stats{
		Devices: map[int]PoolStats{}, Traffic: m.o.Driver.Traffic(),
		BoundInputs: m.boundIn.Load(), BoundOutputs: m.boundOut.Load(),
	}
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

// Close frees the pools, each when its last block is freed.
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
