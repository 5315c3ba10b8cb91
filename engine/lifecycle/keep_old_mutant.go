//go:build mutant_keep_old

package lifecycle

// keepOld is broken on purpose: see build/mutants.txt.
const keepOld = false
