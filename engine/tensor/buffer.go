package tensor

import (
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Buffer is reference-counted memory. Its creator holds the first reference. When the last reference is released, the
// memory is returned (to a pool, to a runtime, to shared memory) and must not be used any more. Retain and Release are
// safe for concurrent use.
type Buffer struct {
	data   []byte
	device *Device // the memory if it is on a GPU; data is nil then
	refs   atomic.Int32
	free   func(*Buffer) // nil: the garbage collector owns the memory
}

// Device is GPU memory. The host can only copy it.
type Device struct {
	GPU     int     // as CUDA numbers it in this process
	Address uintptr // in the primary context of the GPU
	Size    int     // in bytes
	// Read copies the first len(b) bytes to the host and returns when the copy is complete. nil: the host cannot read
	// it.
	Read func(b []byte) error
}

// NewBuffer wraps memory. free, if not nil, is called once when the last reference is released, on the goroutine that
// releases it. The caller holds one reference.
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

// Device returns the GPU memory, nil if it is host memory.
func (b *Buffer) Device() *Device { return b.device }

// Renew gives a released buffer new memory and one reference, which the caller holds. Only the creator of the buffer
// may call it. It saves the allocation of a buffer and its free function.
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

// Pool provides buffers in size classes, powers of two from 512 bytes to 64 MiB. The garbage collector owns larger
// buffers. Some time after many large buffers were released, their memory is returned to the operating system. The zero
// value is ready. Get, Try and the release of buffers are safe for concurrent use.
type Pool struct {
	// Budget counts the buffers of 4 KiB and more while they are in use; nil: they are not counted. It must be set
	// before the first buffer is taken.
	Budget *Budget

	classes  [maxClass - minClass + 1]sync.Pool
	released atomic.Int64 // bytes of large buffers that were released since memory was returned to the operating system
	due      atomic.Bool  // giveBack is going to run
}

const (
	minClass     = 9  // 512 B
	countedClass = 12 // 4 KiB: counting smaller ones would cost more than their memory is worth
	largeClass   = 20 // 1 MiB
	maxClass     = 26 // 64 MiB

	// returnBytes is how much released memory is worth two garbage collections. The collector alone would keep the
	// memory until the heap has grown several times, or for minutes.
	returnBytes = 64 << 20
)

// release notes that a buffer of n bytes is not used any more.
func (p *Pool) release(n int64) {
	p.Budget.Give(n)
	if n < 1<<largeClass || p.released.Add(n) < returnBytes {
		return
	}
	if p.due.CompareAndSwap(false, true) {
		p.returnLater(p.released.Load(), time.Now().Add(returnLatest))
	}
}

// returnLater returns memory to the operating system when nothing large has been released for a while, at the latest at
// a given time. released is what was released until now.
func (p *Pool) returnLater(released int64, latest time.Time) {
	time.AfterFunc(returnDelay, func() {
		if now := p.released.Load(); now != released && time.Now().Before(latest) {
			p.returnLater(now, latest)
			return
		}
		p.released.Store(0)
		p.due.Store(false)
		runtime.GC() // a sync.Pool releases its items at the second collection; FreeOSMemory is that one
		debug.FreeOSMemory()
	})
}

// Get returns a buffer of n bytes with one reference. Its content is undefined. It ignores the limit of the budget.
func (p *Pool) Get(n int) *Buffer {
	c := class(n)
	if c >= countedClass {
		p.Budget.Add(memory(c, n))
	}
	return p.take(c, n)
}

// Try is Get within the limit of the budget. It waits at most for patience until there is room. Errors: those of
// Budget.Take.
func (p *Pool) Try(n int, patience time.Duration) (*Buffer, error) {
	c := class(n)
	if c >= countedClass {
		if err := p.Budget.Take(memory(c, n), patience); err != nil {
			return nil, err
		}
	}
	return p.take(c, n), nil
}

// take returns a buffer of n bytes, which are of class c.
func (p *Pool) take(c, n int) *Buffer {
	if c > maxClass {
		return NewBuffer(make([]byte, n), func(b *Buffer) {
			b.data = nil
			p.release(int64(n))
		})
	}
	pool := &p.classes[c-minClass]
	b, ok := pool.Get().(*Buffer)
	if !ok {
		b = &Buffer{data: make([]byte, 1<<c)}
		if b.free = func(b *Buffer) { pool.Put(b) }; c >= countedClass {
			b.free = func(b *Buffer) {
				pool.Put(b)
				p.release(1 << c)
			}
		}
	}
	b.refs.Store(1)
	b.data = b.data[:n]
	return b
}

// memory returns the bytes of memory of a buffer of n bytes, which are of class c.
func memory(c, n int) int64 {
	if c > maxClass {
		return int64(n)
	}
	return 1 << c
}

func class(n int) int {
	if n <= 1<<minClass {
		return minClass
	}
	return bits.Len(uint(n - 1))
}
