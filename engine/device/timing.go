package device

import "time"

const (
	// busyInterval is how long an answer of Cores.Busy is valid. It is long against the 10 ms of the system's counters.
	busyInterval = 50 * time.Millisecond
	// processInterval is how long the driver's answer about processes is valid, so that the memory of many models is
	// found with one call.
	processInterval = 20 * time.Millisecond
	// defaultReadInterval is how long a Reading is valid: the interval in which Triton reads its metrics.
	defaultReadInterval = 2 * time.Second
)
