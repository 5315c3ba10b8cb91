package arena

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

const (
	// keepFree is how many bytes stay allocated by Trim when nothing is in use.
	keepFree = 8 << 20
	// sweepMin is the size in bytes from which Alloc looks for slots that were just freed before it takes unused
	// memory: what is still in the caches is written in half the time. For smaller slots the search costs more than
	// that.
	sweepMin = 256 << 10
)

// Bits of a request's state.
const (
	StateCancelled = 1
	StatePaused    = 2
)

// NoState stands for a request without a state byte.
const NoState = 0xffffffff

// block is a contiguous part of the arena. It is in use until the other side has freed it and refs is 0.
type block struct {
	at   int64 // offset of its header
	size int64 // with the header
	busy bool
	refs int // responses that refer to it, and the request whose input it is
}

// Arena allocates slots in a mapping. Safe for concurrent use.
type Arena struct {
	*Mapping
	grow int64 // least growth in bytes

	mu     sync.Mutex
	blocks []block // guarded by mu, as are the next: the whole file behind the table, by offset
	first  int     // no block before this index is free
	states []uint16
	next   uint32 // state bytes from here on were never in use
}

// New returns an allocator for m, which grows by at least grow bytes. m's reference stays with the caller.
func New(m *Mapping, grow int64) *Arena {
	a := &Arena{Mapping: m, grow: roundUp(max(grow, 64<<10))}
	if n := m.size.Load() - TableSize; n > 0 {
		a.blocks = append(a.blocks, block{at: TableSize, size: n})
	}
	return a
}

// roundUp rounds to a multiple of HeaderSize.
func roundUp(n int64) int64 { return (n + HeaderSize - 1) &^ (HeaderSize - 1) }

// Alloc returns the offset of n bytes of data in a new slot, which is in use until the other side frees it.
// Errors: Unavailable when the memory cannot grow.
func (a *Arena) Alloc(n int) (int64, error) {
	need := roundUp(int64(n)) + HeaderSize
	a.mu.Lock()
	defer a.mu.Unlock()
	if need >= sweepMin {
		a.sweep()
	}
	at, ok := a.fit(need)
	if !ok {
		a.sweep()
		if at, ok = a.fit(need); !ok {
			if err := a.extend(need); err != nil {
				return 0, err
			}
			at, _ = a.fit(need)
		}
	}
	data := at + HeaderSize
	atomic.StoreUint32(a.inUse(data), 1)
	return data, nil
}

// Store copies data into a new slot and returns its offset. Errors: Alloc's.
func (a *Arena) Store(data []byte) (int64, error) {
	at, err := a.Alloc(len(data))
	if err == nil {
		tensor.Copy(a.mem[at:], data)
	}
	return at, err
}

// Reserve returns n bytes of a slot that the other side does not have until Claim gives it away; nil: there is no room.
func (a *Arena) Reserve(n int) *tensor.Buffer {
	at, err := a.Alloc(n)
	if err != nil {
		return nil // the caller has other memory
	}
	a.mu.Lock()
	i, _ := a.find(at - HeaderSize)
	a.blocks[i].refs++
	a.mu.Unlock()
	a.Free(at) // it stays: it has a reference
	a.Retain()
	return tensor.NewBuffer(a.Bytes(at, n), func(*tensor.Buffer) { a.unref(at - HeaderSize) })
}

// Claim gives the other side a reserved slot whose data is a tensor's, and returns the offset of the data. It returns
// false if the data is not that of a reserved slot, or the other side has it already.
func (a *Arena) Claim(data []byte) (int64, bool) {
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))))
	if at < TableSize+HeaderSize || at >= a.size.Load() {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(at - HeaderSize)
	if !ok || !a.blocks[i].busy || a.blocks[i].refs == 0 || int64(len(data)) > a.blocks[i].size-HeaderSize ||
		atomic.LoadUint32(a.inUse(at)) != 0 {
		return 0, false
	}
	atomic.StoreUint32(a.inUse(at), 1)
	return at, true
}

// find returns the index of the block that begins at start. a.mu is held.
func (a *Arena) find(start int64) (int, bool) {
	return slices.BinarySearchFunc(a.blocks, start, func(b block, at int64) int { return cmp.Compare(b.at, at) })
}

// fit takes the first free block that is large enough. a.mu is held.
func (a *Arena) fit(need int64) (int64, bool) {
	for i := a.first; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.busy {
			if i == a.first {
				a.first++
			}
			continue
		}
		if b.size < need {
			continue
		}
		at, rest := b.at, b.size-need
		b.busy, b.size, b.refs = true, need, 0
		if rest > 0 {
			a.blocks = slices.Insert(a.blocks, i+1, block{at: at + need, size: rest})
		}
		return at, true
	}
	return 0, false
}

// sweep finds the blocks that were freed and joins free neighbours. a.mu is held.
func (a *Arena) sweep() {
	kept := a.blocks[:0]
	for _, b := range a.blocks {
		if b.busy && b.refs == 0 && atomic.LoadUint32(a.inUse(b.at+HeaderSize)) == 0 {
			b.busy = false
		}
		if last := len(kept) - 1; !b.busy && last >= 0 && !kept[last].busy {
			kept[last].size += b.size
			continue
		}
		kept = append(kept, b)
	}
	a.blocks, a.first = kept, 0
}

// extend makes the file longer, so that its end has a free block of need bytes. a.mu is held.
func (a *Arena) extend(need int64) error {
	old := a.size.Load()
	last := len(a.blocks) - 1
	joins := last >= 0 && !a.blocks[last].busy
	if joins {
		need -= a.blocks[last].size // which is too small, or it would have been taken
	}
	size := old + max(need, a.grow)
	if rest := int64(len(a.mem)) - old; size-old > rest {
		if need > rest {
			return status.Errorf(status.Unavailable,
				"the memory shared with the model's process is full: it holds on to %d bytes of requests", old)
		}
		size = int64(len(a.mem))
	}
	if err := a.file.Truncate(size); err != nil {
		return status.Errorf(status.Unavailable,
			"the memory shared with the model's process cannot grow to %d bytes: %w", size, err)
	}
	a.size.Store(size)
	if joins {
		a.blocks[last].size += size - old
	} else {
		a.blocks = append(a.blocks, block{at: old, size: size - old})
	}
	return nil
}

// Trim returns large unused blocks to the system.
func (a *Arena) Trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	for _, b := range a.blocks {
		if !b.busy && b.size > keepFree {
			a.punch(b.at+keepFree/2, b.size-keepFree/2)
		}
	}
}

// Borrow returns n bytes of a slot in use and a buffer that keeps the slot until it is released. It returns false if
// no slot in use has these bytes.
func (a *Arena) Borrow(at, n uint64) ([]byte, *tensor.Buffer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, exact := slices.BinarySearchFunc(a.blocks, at, func(b block, at uint64) int {
		return cmp.Compare(uint64(b.at),
			at)
	})
	if exact || i == 0 { // a header, or before the first block
		return nil, nil, false
	}
	b := &a.blocks[i-1]
	end := uint64(b.at + b.size)
	if !b.busy || at < uint64(b.at+HeaderSize) || at >= end || n > end-at {
		return nil, nil, false
	}
	b.refs++
	a.Retain()
	start := b.at
	data := a.mem[at : at+n : at+n]
	return data, tensor.NewBuffer(data, func(*tensor.Buffer) { a.unref(start) }), true
}

// unref drops a reference on the block that begins at start, and one on the mapping.
func (a *Arena) unref(start int64) {
	a.mu.Lock()
	if i, ok := a.find(start); ok {
		a.blocks[i].refs--
	}
	a.mu.Unlock()
	a.Release()
}

// NewState returns the index of a cleared state byte for a request; NoState: all are in use.
func (a *Arena) NewState() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var i uint32
	switch n := len(a.states); {
	case n > 0:
		i = uint32(a.states[n-1])
		a.states = a.states[:n-1]
	case a.next < TableSize:
		i = a.next
		a.next++
	default:
		return NoState
	}
	a.mem[i] = 0
	return i
}

// FreeState makes a state byte available for other requests.
func (a *Arena) FreeState(i uint32) {
	if i == NoState {
		return
	}
	a.mu.Lock()
	a.mem[i] = 0
	a.states = append(a.states, uint16(i))
	a.mu.Unlock()
}

// SetState sets or clears bits of a request's state.
func (a *Arena) SetState(i uint32, bits byte, on bool) {
	if i == NoState {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if on {
		a.mem[i] |= bits
	} else {
		a.mem[i] &^= bits
	}
}

// InUse returns the number of blocks in use, for tests.
func (a *Arena) InUse() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	for _, b := range a.blocks {
		if b.busy {
			n++
		}
	}
	return n
}
