//go:build mutant_run_first

package sched

// runFirst is broken on purpose: see build/mutants.txt.
const runFirst = false
