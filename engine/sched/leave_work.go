//go:build !mutant_leave_work

package sched

// leaveWork says that an instance leaves to the queue what others on its cores, or faster ones, will do.
const leaveWork = true
