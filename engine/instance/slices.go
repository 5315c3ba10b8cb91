package instance

import (
	"runtime"
	"sync/atomic"
	"time"
)

// sliceMost is after how much of executions an instance's goroutine lets others run before it takes the next batch.
//
// A goroutine that always finds a batch goes from one call into C to the next without ever coming back to Go's scheduler,
// for which it has then run for long, though it computes nothing itself. After 10 ms the runtime's watching thread (sysmon)
// sends signals to its thread at every look and takes the scheduler slot away, and each time that it found something to
// do it looks each 20 us again for some milliseconds. With executions of 5 ms that was 2400 to 2900 wake-ups a second in
// place of 100 to 400, a tenth of the CPU time on a virtual machine. What has been let run in between is a new slice.
const sliceMost = time.Millisecond

// aloneMost is how many slices without a long execution elsewhere let an instance's goroutine go from its thread again.
const aloneMost = 8

// Slices is shared by all instances that compute on the same cores. It knows how many are in executions that take
// slices of their own. The zero value is ready.
type Slices struct{ long atomic.Int32 }

// slice is one instance's share of its goroutine's time. It is used by that goroutine only.
type slice struct {
	shared *Slices
	off    bool          // the instance computes in another process, so that its goroutine waits as others do
	spent  time.Duration // in executions since the last yield
	brief  time.Duration // in those that are no part of it while the goroutine keeps to its thread
	long   bool          // the latest execution took a slice
	locked bool          // the goroutine keeps to its thread
	alone  int           // slices since another instance was seen in a long execution
}

func newSlice(o *Options) slice {
	s := slice{shared: o.Slices, off: o.Model.Traits().OwnProcess}
	if s.shared == nil {
		s.shared = new(Slices)
	}
	return s
}

// begin is called before an execution, and end after it with its duration and how many requests it was for. Brief ones for
// several are no part of a slice: what was answered is enough for other threads to be awake, and a yield cost two batching
// instances 3 % of their rate, while it gave those that run a request at a time 13 %.
func (s *slice) begin() {
	if s.long {
		s.shared.long.Add(1)
	}
}

func (s *slice) end(d time.Duration, requests int) {
	if s.long {
		s.shared.long.Add(-1)
	}
	s.long = !s.off && d >= sliceMost
	switch {
	case s.long || requests == 1:
		s.spent += d
	case s.locked: // it may be all that comes now
		s.brief += d
	}
}

// yield lets other goroutines run if the slice is over, and reports whether it did.
//
// While other instances compute for long, the goroutine keeps to its thread: another one that took it over would be put on a
// core where one of them runs, and leave this one idle (two instances did 0.85 times what they do without yielding, and 1.05
// times so). After a long execution with none beside it there is nothing to win: yielding saved 4 % of the CPU time, but
// whoever was let run first held up the next execution by as much.
func (s *slice) yield() bool {
	over := s.spent >= sliceMost
	if s.off || !over && s.brief < sliceMost {
		return false
	}
	s.spent, s.brief = 0, 0
	others := s.shared.long.Load() > 0
	switch {
	case others:
		s.alone = 0
		if !s.locked {
			runtime.LockOSThread()
			s.locked = true
		}
	case s.alone < aloneMost:
		s.alone++
	default:
		s.free()
	}
	if !over || s.long && !others {
		return false
	}
	runtime.Gosched()
	return true
}

// free lets the goroutine go from its thread.
func (s *slice) free() {
	if s.locked {
		runtime.UnlockOSThread()
		s.locked = false
	}
}
