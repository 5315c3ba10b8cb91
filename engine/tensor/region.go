package tensor

import (
	"os"
	"sync"
)

// ClientMemory is the GPU of a Device that is in a Region.
const ClientMemory = -1

// Region is memory that a client shares with the server and that other processes can map. The client may change what is in it
// at any time, and shrink it: who reads it in this process does so by Device.Read, which does not fault.
type Region struct {
	// File is the object, open as long as somebody holds a buffer in the region.
	File *os.File
	// Base and Size say where the region is in the object, in bytes.
	Base, Size int64
	// Object tells the object from others; several regions may be in one.
	Object [2]uint64

	mu   sync.Mutex
	gone map[int]func() // guarded by mu, as is the next; nil: it is gone
	next int
}

// NewRegion returns a region whose memory is there until Close.
func NewRegion(f *os.File, base, size int64, object [2]uint64) *Region {
	return &Region{File: f, Base: base, Size: size, Object: object, gone: map[int]func(){}}
}

// WhenGone has f called once when nobody uses the region any more, from whichever goroutine let it go. cancel takes that back.
// The caller holds a buffer in the region.
func (r *Region) WhenGone(f func()) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	n := r.next
	r.gone[n] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.gone, n)
	}
}

// Close tells those who want to know that the region is gone. It is called once, before the object is closed.
func (r *Region) Close() {
	r.mu.Lock()
	all := r.gone
	r.gone = nil
	r.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// Overlaps reports whether d and o are in regions and have bytes in common there.
func (d *Device) Overlaps(o *Device) bool {
	return d.Region != nil && o.Region != nil && d.Region.Object == o.Region.Object &&
		d.Offset < o.Offset+int64(o.Size) && o.Offset < d.Offset+int64(d.Size)
}
