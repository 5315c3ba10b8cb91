package arena

import (
	"os"
	"slices"
	"sync/atomic"
	"unsafe"
)

const (
	// HeaderSize is the size in bytes of a slot's header, which precedes its data. Slots are aligned to it.
	HeaderSize = 64
	// TableSize is the number of bytes before the slots. In the down arena, each is the state of a request.
	TableSize = 65536
	// pendingSizeAt is the offset in the up arena of the length of the pending responses, which follow the first
	// header.
	pendingSizeAt = 8
)

// Mapping is a memfd and its place in memory. It counts its users; the memory is unmapped with the last one.
// All methods are safe for concurrent use.
type Mapping struct {
	file *os.File
	mem  []byte       // for the largest possible file
	size atomic.Int64 // of the file, as far as this side knows
	refs atomic.Int32
}

// File returns the memfd, for a child process to inherit.
func (m *Mapping) File() *os.File { return m.file }

// Size returns the size of the file in bytes, as far as this side knows.
func (m *Mapping) Size() int64 { return m.size.Load() }

// Retain adds a reference. The caller must hold one, or know that another user does.
func (m *Mapping) Retain() { m.refs.Add(1) }

// Release drops a reference.
func (m *Mapping) Release() {
	if m.refs.Add(-1) == 0 {
		m.unmap()
	}
}

// Bytes returns n bytes at an offset that this side has allocated.
func (m *Mapping) Bytes(at int64, n int) []byte { return m.mem[at : at+int64(n) : at+int64(n)] }

// inUse returns the first word of a slot's header. Only its lowest byte is ever set: 1 while the slot is in use.
func (m *Mapping) inUse(data int64) *uint32 {
	return (*uint32)(unsafe.Pointer(&m.mem[data-HeaderSize]))
}

// Free marks the slot with data at this offset as unused, so that the side which allocated it may use it again.
func (m *Mapping) Free(data int64) { atomic.StoreUint32(m.inUse(data), 0) }

// LastBegun returns the ticket of the last request in a series whose execution has begun, from the up arena.
func (m *Mapping) LastBegun() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.mem[0]))) }

// PendingResponses returns a copy of the responses in a series that the process has not sent yet, from the up arena.
// It is the body of a RESPONSES frame whose count is not valid.
func (m *Mapping) PendingResponses() []byte {
	n := atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.mem[pendingSizeAt])))
	return slices.Clone(m.mem[HeaderSize:][:min(n, TableSize-HeaderSize)])
}

// StateHas reports whether any of these bits is set in a request's state byte.
func (m *Mapping) StateHas(state uint32, bits byte) bool {
	return state < TableSize && m.mem[state]&bits != 0
}

// View returns n bytes at an offset that the other side has sent, or false if no slot can be there.
func (m *Mapping) View(at, n uint64) ([]byte, bool) {
	if at < TableSize+HeaderSize || at%HeaderSize != 0 || at > uint64(len(m.mem)) || n > uint64(len(m.mem))-at {
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
