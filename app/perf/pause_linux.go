package perf

import (
	"syscall"
	"time"
)

// pause sleeps, to within some tens of microseconds. The runtime's timers may be a millisecond late where nothing else
// runs, since they wait in whole milliseconds of epoll; the load would be sent late and charge the server for it.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // an interrupt only shortens it, and the caller looks at the time again
}
