package sched

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// nudge makes Go's timers precise while the process has nothing else to do. The runtime then waits for timers in
// epoll, in whole milliseconds, so that a queue delay of 100 µs would take 1.1 ms. A timer of the kernel ends that wait
// just after the moment for which a timer of Go's was set, and the runtime looks at its own timers again. Nothing reads
// the kernel's timer.
// The zero value is ready for use.
type nudge struct {
	file *os.File // registers the kernel's timer with the runtime; nil until it is needed
	fd   int
}

// after has the runtime look at its timers when d has passed. It replaces an earlier call.
func (n *nudge) after(d time.Duration) {
	if d > nudgeMost {
		return
	}
	if n.file == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil { // no descriptor is left: timers are less precise
			return
		}
		n.fd, n.file = fd, os.NewFile(uintptr(fd), "timer")
	}
	_ = unix.TimerfdSettime(n.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}, nil) // cannot fail
}

// close closes the descriptor. The next call of after opens one again.
func (n *nudge) close() {
	if n.file != nil {
		_ = n.file.Close() // nothing was written
		n.file = nil
	}
}
