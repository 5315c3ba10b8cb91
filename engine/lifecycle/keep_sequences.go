//go:build !mutant_keep_sequences

package lifecycle

// keepSequences says that a live sequence stays with the version that has its state when another one comes.
const keepSequences = true
