//go:build mutant_idle_ends

package sched

// idleEnds is broken on purpose: see build/mutants.txt.
const idleEnds = false
