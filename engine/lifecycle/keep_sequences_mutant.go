//go:build mutant_keep_sequences

package lifecycle

// keepSequences is broken on purpose: see build/mutants.txt.
const keepSequences = false
