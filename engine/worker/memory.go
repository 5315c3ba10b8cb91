package worker

import "sync"

// oomAccount tells which of the processes that were ended by SIGKILL the kernel ended for want of memory: it counts those
// ends, but does not say whose they were, so that each can be the reason for one process only.
type oomAccount struct {
	count func() int64 // the kernel's

	mu    sync.Mutex
	taken int64 // guarded by mu: those that a process was told by
}

// before returns what to give to since when a process that starts now has ended.
func (a *oomAccount) before() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count() - a.taken
}

// since reports whether the kernel has ended a process since before that no other process has ended by.
func (a *oomAccount) since(before int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count()-a.taken <= before {
		return false
	}
	a.taken++
	return true
}
