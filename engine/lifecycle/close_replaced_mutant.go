//go:build mutant_close_replaced

package lifecycle

// closeReplaced is broken on purpose: see build/mutants.txt.
const closeReplaced = false
