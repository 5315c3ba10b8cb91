package worker

import "golang.org/x/sys/unix"

// monotonic reads the clock that processes read, in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0 // every Linux has it
	}
	return t.Nano()
}
