//go:build !mutant_tell_ready

package sched

// tellReady says that an empty slot of a sequence batch is told not ready.
const tellReady = true
