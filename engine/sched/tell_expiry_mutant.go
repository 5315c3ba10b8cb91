//go:build mutant_tell_expiry

package sched

// tellExpiry is broken on purpose: see build/mutants.txt.
const tellExpiry = false
