package process

import "sync"

// oomAccount decides which of the processes that ended by SIGKILL were killed because the system was out of memory.
// The kernel counts such kills but does not say which processes they were, so each kill explains the end of one
// process only.
type oomAccount struct {
	count func() int64 // the kernel's count

	mu    sync.Mutex
	taken int64 // guarded by mu: kills that have explained an end
}

// before returns the argument of since for a process that is about to be started.
func (a *oomAccount) before() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count() - a.taken
}

// since reports whether the kernel has killed a process since before, and that kill explains no other end yet.
func (a *oomAccount) since(before int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count()-a.taken <= before {
		return false
	}
	a.taken++
	return true
}
