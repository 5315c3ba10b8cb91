//go:build !mutant_hold_batch

package instance

// holdBatch says that the requests of a batch are held until Execute has returned.
const holdBatch = true
