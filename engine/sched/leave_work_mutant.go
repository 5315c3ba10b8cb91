//go:build mutant_leave_work

package sched

// leaveWork is broken on purpose: see build/mutants.txt.
const leaveWork = false
