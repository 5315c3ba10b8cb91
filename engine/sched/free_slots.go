//go:build !mutant_free_slots

package sched

// freeSlots says that the end of a sequence frees its slot.
const freeSlots = true
