//go:build !mutant_idle_ends

package sched

// idleEnds says that a sequence that is idle for too long is ended.
const idleEnds = true
