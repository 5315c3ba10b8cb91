package tensor

import (
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Buffer is memory with a count of those who use it. The one who makes it holds one reference. When the last
// reference goes, the memory is handed back (to a pool, to a runtime, to shared memory) and must not be touched.
// Retain and Release are safe for concurrent use.
type Buffer struct {
	data   []byte
	device *Device // where the memory is if the host cannot read it; data is nil then
	refs   atomic.Int32
	free   func(*Buffer) // nil: the garbage collector's
}

// Device is memory of a GPU, which the host can reach by copies only.
type Device struct {
	GPU     int     // as CUDA numbers it in this process
	Address uintptr // in the primary context of the GPU
	Size    int     // in bytes
	// Read copies the first len(b) bytes to the host and returns when they are there; nil: it cannot be done.
	Read func(b []byte) error
}

// NewBuffer wraps memory; free, if not nil, is called once when the last reference goes, from whichever goroutine
// let it go. The caller holds one reference.
func NewBuffer(data []byte, free func(*Buffer)) *Buffer {
	b := &Buffer{data: data, free: free}
	b.refs.Store(1)
	return b
}

// NewDeviceBuffer is NewBuffer for memory of a GPU. Its Bytes are nil.
func NewDeviceBuffer(d Device, free func(*Buffer)) *Buffer {
	b := NewBuffer(nil, free)
	b.device = &d
	return b
}

// Device returns where the memory is, nil if it is the host's.
func (b *Buffer) Device() *Device { return b.device }

// Renew gives a buffer whose last reference is gone new memory and one reference, the caller's. Only who made the
// buffer may call it, to use its free function again without an allocation.
func (b *Buffer) Renew(data []byte) {
	if b.refs.Load() != 0 {
		panic("tensor: Renew of a buffer in use")
	}
	b.data = data
	b.refs.Store(1)
}

// Bytes returns the memory. It is valid as long as the caller holds a reference.
func (b *Buffer) Bytes() []byte { return b.data }

// SetLen shortens or lengthens the visible memory within its capacity.
func (b *Buffer) SetLen(n int) { b.data = b.data[:n] }

// Retain adds a reference and returns b.
func (b *Buffer) Retain() *Buffer {
	if b.refs.Add(1) <= 1 {
		panic("tensor: Retain of a released buffer")
	}
	return b
}

// Release drops a reference.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
	case n < 0:
		panic("tensor: Release of a released buffer")
	case b.free != nil:
		b.free(b)
	}
}

// Pool hands out buffers in size classes (powers of two from 512 bytes to 64 MiB), so that one huge body does not
// stay behind a small one. Larger buffers come from and go to the garbage collector; a second after several of them were
// released, their memory goes back to the system. The zero value is ready.
// Get and the release of its buffers are safe for concurrent use.
type Pool struct {
	classes [maxClass - minClass + 1]sync.Pool
	loose   atomic.Int64 // bytes of larger buffers that were released since memory last went back to the system
}

const (
	// looseBytes are worth a collection, which is cheap beside a request of that size. By itself the collector lets them
	// lie until as much again several times over is asked for, or two minutes have passed.
	looseBytes = 256 << 20
	looseTime  = time.Second
)

// released counts a buffer that no class holds.
func (p *Pool) released(b *Buffer) {
	n := int64(cap(b.data))
	b.data = nil
	if was := p.loose.Add(n) - n; was < looseBytes && was+n >= looseBytes {
		time.AfterFunc(looseTime, func() {
			p.loose.Store(0)
			runtime.GC() // what the classes hold they let go at the second collection
			debug.FreeOSMemory()
		})
	}
}

const (
	minClass = 9  // 512 B
	maxClass = 26 // 64 MiB
)

// Get returns a buffer of n bytes with one reference. Its content is not cleared.
func (p *Pool) Get(n int) *Buffer {
	c := class(n)
	if c > maxClass {
		return NewBuffer(make([]byte, n), p.released)
	}
	pool := &p.classes[c-minClass]
	b, ok := pool.Get().(*Buffer)
	if !ok {
		b = &Buffer{data: make([]byte, 1<<c)}
		b.free = func(b *Buffer) { pool.Put(b) }
	}
	b.refs.Store(1)
	b.data = b.data[:n]
	return b
}

func class(n int) int {
	if n <= 1<<minClass {
		return minClass
	}
	return bits.Len(uint(n - 1))
}
