//go:build !mutant_leave_at_once

package sched

// leaveAtOnce says that a cancelled request leaves the queue at once, not only at the next cut.
const leaveAtOnce = true
