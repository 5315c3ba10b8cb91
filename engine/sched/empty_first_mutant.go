//go:build mutant_empty_first

package sched

// emptyFirst is broken on purpose: see build/mutants.txt.
const emptyFirst = false
