package worker

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

const (
	// slotHeader is the size of what precedes a slot's data, and what slots are aligned to; tableSize is what precedes
	// the slots: in the down arena a byte for each request's state.
	slotHeader = 64
	tableSize  = 65536
	// heldSizeAt is where in the up arena it says how many answers behind the first slotHeader bytes are whole.
	heldSizeAt = 8
	// keepFree is how much of the down arena stays when nothing is in use; what is above goes back to the system.
	keepFree = 8 << 20
	// warmLeast is the size from which on a slot is taken where one was just freed, rather than where none was for long: what
	// lies in the caches is copied to in half the time, which is more than looking for it takes.
	warmLeast = 256 << 10
)

// mapping is a memfd and its place in memory, as long as it can ever become: growing the file is all it takes to use
// more of it. It counts its users; the memory goes with the last one.
type mapping struct {
	file *os.File
	mem  []byte
	size atomic.Int64 // of the file, as far as this side knows
	refs atomic.Int32
}

// release drops a reference.
func (m *mapping) release() {
	if m.refs.Add(-1) == 0 {
		m.unmap()
	}
}

// word returns the first bytes of a slot's header, of which only the lowest byte is ever set.
func (m *mapping) word(data int64) *uint32 {
	return (*uint32)(unsafe.Pointer(&m.mem[data-slotHeader]))
}

// free tells the side that allocated a slot that its data is not needed any more.
func (m *mapping) free(data int64) { atomic.StoreUint32(m.word(data), 0) }

// begun returns the ticket of the last request of a series that the worker has begun, from the up arena.
func (m *mapping) begun() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.mem[0]))) }

// held returns a copy of the answers of a series that the worker has not sent yet, from the up arena: the body of a RESPONSES
// whose number of responses does not count.
func (m *mapping) held() []byte {
	n := atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.mem[heldSizeAt])))
	return slices.Clone(m.mem[slotHeader:][:min(n, tableSize-slotHeader)])
}

// view returns n bytes at an offset that the other side has sent, or false if there is no such slot.
func (m *mapping) view(at, n uint64) ([]byte, bool) {
	if at < tableSize+slotHeader || at%slotHeader != 0 || at > uint64(len(m.mem)) || n > uint64(len(m.mem))-at {
		return nil, false
	}
	if end := int64(at + n); end > m.size.Load() {
		info, err := m.file.Stat()
		if err != nil || info.Size() < end {
			return nil, false
		}
		m.size.Store(info.Size())
	}
	return m.mem[at : at+n : at+n], true
}

// block is a part of the down arena. It is in use as long as the worker has not freed it or a response refers to it.
type block struct {
	at   int64 // of its header
	size int64 // with the header
	busy bool
	refs int // responses that refer to it, and the request whose input it is
}

// arena allocates in the down arena. Safe for concurrent use.
type arena struct {
	*mapping
	grow int64 // least growth

	mu     sync.Mutex
	blocks []block // guarded by mu, as is all below: the whole file behind the table, by offset
	first  int     // no block before this one is free
	states []uint16
	next   uint32 // state bytes from here on were never given out
}

func newArena(m *mapping, grow int64) *arena {
	a := &arena{mapping: m, grow: (max(grow, 64<<10) + slotHeader - 1) &^ (slotHeader - 1)}
	if n := m.size.Load() - tableSize; n > 0 {
		a.blocks = append(a.blocks, block{at: tableSize, size: n})
	}
	return a
}

// alloc returns the offset of n bytes in a slot that is in use until the worker frees it.
func (a *arena) alloc(n int) (int64, error) {
	need := (int64(n) + slotHeader + slotHeader - 1) &^ (slotHeader - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if need >= warmLeast {
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
	data := at + slotHeader
	atomic.StoreUint32(a.word(data), 1)
	return data, nil
}

// reserve returns n bytes of a slot that the worker does not have, until claim gives it to him; nil: there is no room.
func (a *arena) reserve(n int) *tensor.Buffer {
	at, err := a.alloc(n)
	if err != nil {
		return nil // who asks has other memory
	}
	a.mu.Lock()
	i, _ := a.find(at - slotHeader)
	a.blocks[i].refs++
	a.mu.Unlock()
	a.free(at) // nobody sweeps it: it has a reference
	a.refs.Add(1)
	return tensor.NewBuffer(a.mem[at:at+int64(n):at+int64(n)], func(*tensor.Buffer) { a.giveBack(at - slotHeader) })
}

// claim gives the worker a slot that was reserved and whose data is a tensor's, and returns the data's offset; false: the data
// is not that, or the worker has it.
func (a *arena) claim(data []byte) (int64, bool) {
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))))
	if at < tableSize+slotHeader || at >= a.size.Load() {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(at - slotHeader)
	if !ok || !a.blocks[i].busy || a.blocks[i].refs == 0 || int64(len(data)) > a.blocks[i].size-slotHeader || atomic.LoadUint32(a.word(at)) != 0 {
		return 0, false
	}
	atomic.StoreUint32(a.word(at), 1)
	return at, true
}

// find returns the index of the block that begins at start. a.mu is held.
func (a *arena) find(start int64) (int, bool) {
	return slices.BinarySearchFunc(a.blocks, start, func(b block, at int64) int { return cmp.Compare(b.at, at) })
}

// fit takes the first free block that is large enough. a.mu is held.
func (a *arena) fit(need int64) (int64, bool) {
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

// sweep finds the blocks that are free by now and joins neighbours. a.mu is held.
func (a *arena) sweep() {
	kept := a.blocks[:0]
	for _, b := range a.blocks {
		if b.busy && b.refs == 0 && atomic.LoadUint32(a.word(b.at+slotHeader)) == 0 {
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

// extend makes the file longer by at least need. a.mu is held.
func (a *arena) extend(need int64) error {
	old := a.size.Load()
	if last := len(a.blocks) - 1; last >= 0 && !a.blocks[last].busy {
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
		return status.Errorf(status.Unavailable, "the memory shared with the model's process cannot grow to %d bytes: %w", size, err)
	}
	a.size.Store(size)
	if last := len(a.blocks) - 1; last >= 0 && !a.blocks[last].busy {
		a.blocks[last].size += size - old
	} else {
		a.blocks = append(a.blocks, block{at: old, size: size - old})
	}
	return nil
}

// trim gives memory back to the system if nothing is in use and much was.
func (a *arena) trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	for _, b := range a.blocks {
		if !b.busy && b.size > keepFree {
			a.punch(b.at+keepFree/2, b.size-keepFree/2)
		}
	}
}

// borrow returns bytes of a slot in use and a buffer that keeps the slot as long as it lives; false if there is no slot
// in use that has them.
func (a *arena) borrow(at, n uint64) ([]byte, *tensor.Buffer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearchFunc(a.blocks, at, func(b block, at uint64) int {
		if uint64(b.at+b.size) <= at {
			return -1
		}
		if uint64(b.at) > at {
			return 1
		}
		return 0
	})
	if i == len(a.blocks) {
		return nil, nil, false
	}
	b := &a.blocks[i]
	if !b.busy || at < uint64(b.at+slotHeader) || n > uint64(b.at+b.size)-at {
		return nil, nil, false
	}
	b.refs++
	a.refs.Add(1)
	start := b.at
	data := a.mem[at : at+n : at+n]
	return data, tensor.NewBuffer(data, func(*tensor.Buffer) { a.giveBack(start) }), true
}

func (a *arena) giveBack(start int64) {
	a.mu.Lock()
	if i, ok := a.find(start); ok {
		a.blocks[i].refs--
	}
	a.mu.Unlock()
	a.release()
}

// state gives a request a byte for its state; noState: there are none left.
func (a *arena) state() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var i uint32
	switch n := len(a.states); {
	case n > 0:
		i = uint32(a.states[n-1])
		a.states = a.states[:n-1]
	case a.next < tableSize:
		i = a.next
		a.next++
	default:
		return noState
	}
	a.mem[i] = 0
	return i
}

func (a *arena) dropState(i uint32) {
	if i == noState {
		return
	}
	a.mu.Lock()
	a.mem[i] = 0
	a.states = append(a.states, uint16(i))
	a.mu.Unlock()
}

// mark sets or clears bits of a request's state.
func (a *arena) mark(i uint32, bits byte, on bool) {
	if i == noState {
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

// Bits of a request's state.
const (
	stateCancelled = 1
	statePaused    = 2
)
