package perf

import (
	"syscall"
	"time"
)

// pause sleeps, to within some tens of microseconds. The runtime's timers may be a millisecond late when nothing else
// runs, because they wait in epoll, in whole milliseconds. Requests would be sent late, which would count as the
// server's latency.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal only shortens it; the caller checks the time again
}
