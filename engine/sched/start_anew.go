//go:build !mutant_start_anew

package sched

// startAnew says that a sequence that starts gets the initial states.
const startAnew = true
