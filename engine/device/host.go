package device

import (
	"time"

	"nereid/engine/system/cgroup"
	"nereid/engine/system/proc"
)

// HostUse is the use of the machine's cores and memory. What the system does not report is zero.
type HostUse struct {
	// Busy is the time that all cores together were busy, and Total that which has passed for them, since some time.
	// The quotient of their differences between two readings is the share of the machine that was busy.
	Busy, Total time.Duration
	// Memory is the memory that this process may use: the machine's, or the limit of the control group if that is less.
	// Free is the available part of it. Both are in bytes.
	Memory, Free int64
}

// Host returns the current use of the machine.
func Host() HostUse {
	var u HostUse
	u.Busy, u.Total, _ = proc.CPUTimes(proc.Root)
	u.Memory, u.Free, _ = proc.MachineMemory(proc.Root)
	u.Memory, u.Free = cgroup.Own("memory").Memory(u.Memory, u.Free)
	return u
}
