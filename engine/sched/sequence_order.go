//go:build !mutant_sequence_order

package sched

// sequenceOrder says that the requests of a sequence run in the order in which they came.
const sequenceOrder = true
