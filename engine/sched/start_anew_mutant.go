//go:build mutant_start_anew

package sched

// startAnew is broken on purpose: see build/mutants.txt.
const startAnew = false
