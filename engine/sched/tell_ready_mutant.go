//go:build mutant_tell_ready

package sched

// tellReady is broken on purpose: see build/mutants.txt.
const tellReady = false
