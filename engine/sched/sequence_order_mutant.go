//go:build mutant_sequence_order

package sched

// sequenceOrder is broken on purpose: see build/mutants.txt.
const sequenceOrder = false
