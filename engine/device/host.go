package device

import "time"

// HostUse is what the machine does besides its GPUs. What the system does not tell is zero.
type HostUse struct {
	// Busy and Total are the time that all cores together have worked, and have had, since some moment: the share of the
	// machine that worked between two readings is the quotient of their differences.
	Busy, Total time.Duration
	// Memory is what there is for this process: the machine's, or what its control group may have if that is less. Free is
	// what could still be had of it.
	Memory, Free int64
}
