//go:build mutant_own_states

package sched

// ownStates is broken on purpose: see build/mutants.txt.
const ownStates = false
