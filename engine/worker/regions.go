package worker

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// A tensor that a client has in shared memory can be read by a model's process where it is. The process gets the region's
// descriptor before the first of its tensors, and maps it so that what the model writes stays its own (PROTOCOL.md, "Regions").

const (
	// offsetBits of what a record says of a place in a region are the offset in the object; the rest is the region's number.
	offsetBits = 40
	// mostRegions is how many regions a process has at once: each costs it descriptors.
	mostRegions = 64
	// regionFiles is the least limit of descriptors under which a process is given any.
	regionFiles = 1024
)

// Regions says whether the processes of a model take inputs where they are in clients' memory. The zero value is a model of which
// no process has said so yet. Safe for concurrent use.
type Regions struct{ take, copied atomic.Bool }

// Used reports whether they do.
func (r *Regions) Used() bool { return r.take.Load() && !r.copied.Load() }

// shares are the regions that a worker has. A nil *shares has none and gives none. Safe for concurrent use.
type shares struct {
	w *Worker

	mu    sync.Mutex
	all   map[*tensor.Region]*share // guarded by mu, as is all below
	next  int64                     // the number of the next
	owed  []int64                   // numbers of regions that are gone and of which the worker could not be told
	ended bool
}

type share struct {
	number int64
	cancel func()
}

// place returns what a record says of memory in a region, which the worker is given if it does not have it; false: it cannot be.
func (s *shares) place(d *tensor.Device) (int64, bool) {
	if s == nil || d.Region == nil || d.Offset >= 1<<offsetBits {
		return 0, false
	}
	if info, err := d.Region.File.Stat(); err != nil || info.Size() < d.Offset+int64(d.Size) {
		return 0, false // the process would end by it; who reads it here hears why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	known := s.all[d.Region]
	if known == nil {
		if known = s.give(d.Region); known == nil {
			return 0, false
		}
	}
	return known.number<<offsetBits | d.Offset, true
}

// give sends the worker a region. s.mu is held.
func (s *shares) give(r *tensor.Region) *share {
	if s.ended || len(s.all) >= mostRegions || s.next >= 1<<(63-offsetBits) {
		return nil
	}
	var message [24]byte
	binary.LittleEndian.PutUint64(message[:], uint64(s.next))
	binary.LittleEndian.PutUint64(message[8:], uint64(r.Base))
	binary.LittleEndian.PutUint64(message[16:], uint64(r.Size))
	// The process reads there and nothing else, and is given no more than that.
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", r.File.Fd()))
	if err != nil {
		return nil // its inputs are copied then
	}
	defer f.Close()
	if s.w.p.sendFile(message[:], f) != nil {
		return nil
	}
	given := &share{number: s.next, cancel: r.WhenGone(func() { s.forget(r) })}
	s.all[r] = given
	s.next++
	return given
}

// forget has the worker forget a region that is gone.
func (s *shares) forget(r *tensor.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[r]; known != nil {
		delete(s.all, r)
		s.owed = append(s.owed, known.number)
		s.settle()
	}
}

// settle tells the worker of the regions that are gone, as far as that does not have to wait. s.mu is held.
func (s *shares) settle() {
	for len(s.owed) > 0 {
		var packet [headerSize]byte
		putHeader(packet[:], header{kind: kindRegionGone, id: uint64(s.owed[0])})
		if s.w.p.sendNow(packet[:]) != nil {
			return // it is busy; the next execution comes after it
		}
		s.owed = s.owed[1:]
	}
}

// close forgets all: the worker has ended.
func (s *shares) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	all := s.all
	s.all, s.owed, s.ended = nil, nil, true
	s.mu.Unlock()
	for _, known := range all {
		known.cancel()
	}
}

// number returns the number of a region; -1: the worker does not have it.
func (s *shares) number(r *tensor.Region) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[r]; known != nil {
		return known.number
	}
	return -1
}

// addInput adds an output that is an input of the request, in a client's region, unchanged. It stays there where the client wants
// it in shared memory.
func (x *inbox) addInput(sig *signature, p place, r *infer.Request, resp *infer.Response) error {
	in := x.input(p, r)
	if in == nil || sig.dt == tensor.Bytes {
		return status.Errorf(status.Internal, "tensor '%s' lies at %d (place %d, %d bytes), where the request has no input", sig.name, p.at, p.where, p.length)
	}
	if leftInRegion(r, sig.name) {
		resp.AddOutput(sig.name, sig.dt, sig.shape, nil, in.Buf.Retain())
		return nil
	}
	host := *in
	buf, err := host.ToHost(x.pool)
	if err != nil {
		return err
	}
	resp.AddOutput(sig.name, sig.dt, sig.shape, host.Data, buf)
	return nil
}

// input returns the input of a request that lies in a place in a region, nil if there is none.
func (x *inbox) input(p place, r *infer.Request) *tensor.Tensor {
	if x.given == nil || p.at > 1<<63-1 {
		return nil
	}
	for i := range r.Inputs {
		d := r.Inputs[i].OnDevice()
		if d != nil && d.Region != nil && uint64(d.Size) == p.length && d.Offset == int64(p.at)&(1<<offsetBits-1) && x.given.number(d.Region) == int64(p.at)>>offsetBits {
			return &r.Inputs[i]
		}
	}
	return nil
}

// leftInRegion reports whether an output may stay in a region: who reads the response copies it to where the client wants it.
func leftInRegion(r *infer.Request, name string) bool {
	o := r.Requested(name)
	if !r.OnDevice || o == nil {
		return false
	}
	_, ok := o.Shared.(infer.DeviceOutput)
	return ok && o.Classification == 0
}
