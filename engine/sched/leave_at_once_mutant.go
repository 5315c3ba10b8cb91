//go:build mutant_leave_at_once

package sched

// leaveAtOnce is broken on purpose: see build/mutants.txt.
const leaveAtOnce = false
