//go:build !mutant_empty_first

package sched

// emptyFirst says that a scheduler that closes ends when its queue is empty, not before.
const emptyFirst = true
