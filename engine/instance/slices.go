package instance

import (
	"runtime"
	"sync/atomic"
	"time"
)

// An instance's goroutine that always finds a batch calls into C again and again without returning to Go's scheduler.
// After 10 ms the runtime takes it for a goroutine that computes: it interrupts its thread and hands its processor
// over, which with executions of 5 ms costs a tenth of the CPU time. So the goroutine yields after each time slice.

// aloneMost is how many executions without a long one elsewhere let an instance's goroutine leave its thread again.
const aloneMost = 8

// Slices is shared by all instances that compute on the same cores. It counts those in long executions. The zero value
// is ready.
type Slices struct{ long atomic.Int32 }

// slice is one instance's use of its goroutine's time. It belongs to that goroutine.
type slice struct {
	shared *Slices
	off    bool          // the instance computes in another process, so that its goroutine waits as others do
	spent  time.Duration // in executions since the last yield
	long   bool          // the latest execution was long
	locked bool          // the goroutine is locked to its thread
	alone  int           // executions since another instance was seen in a long one
}

func newSlice(o *Options) slice {
	s := slice{shared: o.Slices, off: o.Model.Traits().OwnProcess}
	if s.shared == nil {
		s.shared = new(Slices)
	}
	return s
}

// begin is called before an execution.
func (s *slice) begin() {
	if s.long {
		s.shared.long.Add(1)
	}
}

// end is called after an execution, with its duration and its number of requests. Short executions of several requests
// do not use up the slice: answering them wakes other threads anyway, and a yield would only cost time.
func (s *slice) end(d time.Duration, requests int) {
	if s.long {
		s.shared.long.Add(-1)
	}
	s.long = !s.off && d >= sliceMost
	if s.long || requests == 1 {
		s.spent += d
	}
}

// yield lets other goroutines run if the slice is over, and reports whether it did.
//
// While other instances are in long executions, the goroutine is locked to its thread: a thread that took it over would
// compete with one of them for a core and leave another core idle. After a long execution without another there is
// nothing to gain: a goroutine that runs first would delay the next execution.
func (s *slice) yield() bool {
	over := s.spent >= sliceMost
	if s.off || !over && !s.locked {
		return false
	}
	others := s.shared.long.Load() > 0
	switch {
	case others && over:
		s.alone = 0
		if !s.locked {
			runtime.LockOSThread()
			s.locked = true
		}
	case s.locked && !others:
		if s.alone++; s.alone > aloneMost {
			s.free()
		}
	}
	if !over {
		return false
	}
	s.spent = 0
	if s.long && !others {
		return false
	}
	runtime.Gosched()
	return true
}

// free unlocks the goroutine from its thread.
func (s *slice) free() {
	if s.locked {
		runtime.UnlockOSThread()
		s.locked = false
	}
}
