//go:build mutant_tell_leaving

package lifecycle

// tellLeaving is broken on purpose: see build/mutants.txt.
const tellLeaving = false
