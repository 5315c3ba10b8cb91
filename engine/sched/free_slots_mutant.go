//go:build mutant_free_slots

package sched

// freeSlots is broken on purpose: see build/mutants.txt.
const freeSlots = false
