package capi

// #include "capi.h"
import "C"

import (
	"sync/atomic"
	"time"
)

// keptFor is how long freed memory of runs is kept, at least, when no run uses any. It may be twice as long.
const keptFor = 10 * time.Second

// tidying is true while a timer looks at the memory that is kept.
var tidying atomic.Bool

// KeepMemory sets how many freed bytes are kept for later runs of all sessions of the process. The default is 0. The
// last call counts; what is kept already stays until the next block is kept or the timer ends.
func KeepMemory(bytes int64) { C.nrd_keep_memory(C.size_t(bytes)) }

// Kept returns the freed bytes that are kept, and how often such memory was kept or taken.
func Kept() (bytes int64, uses uint64) {
	return int64(C.nrd_kept_bytes()), uint64(C.nrd_kept_uses())
}

// Trim returns to the system what is kept, and the free memory of the C library's allocator.
func Trim() {
	C.nrd_free_kept()
	C.nrd_trim()
}

// TrimClosed returns the memory of closed sessions to the system. What is kept for runs stays if there are other
// sessions: their next runs would have to get it again.
func TrimClosed() {
	if sessions.Load() == 0 {
		C.nrd_free_kept()
	}
	C.nrd_trim()
}

// tidyLater frees the kept memory some time after its last use.
func tidyLater() {
	if tidying.Load() || !tidying.CompareAndSwap(false, true) {
		return
	}
	_, uses := Kept()
	time.AfterFunc(keptFor, func() { tidy(uses) })
}

// tidy frees the kept memory unless it was used since a count of uses. Then it looks again later.
func tidy(since uint64) {
	bytes, uses := Kept()
	if bytes > 0 && uses != since {
		time.AfterFunc(keptFor, func() { tidy(uses) })
		return
	}
	if bytes > 0 {
		Trim()
	}
	tidying.Store(false)
	if bytes, _ := Kept(); bytes > 0 { // kept by a run that saw tidying
		tidyLater()
	}
}
