//go:build !mutant_run_first

package sched

// runFirst says that a sequence scheduler that closes ends when the last sequence has run, not before.
const runFirst = true
