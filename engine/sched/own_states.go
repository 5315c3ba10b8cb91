//go:build !mutant_own_states

package sched

// ownStates says that each sequence has states of its own.
const ownStates = true
