//go:build mutant_hold_batch

package instance

// holdBatch is broken on purpose: see build/mutants.txt.
const holdBatch = false
