//go:build mutant_warm_first

package instance

// warmFirst is broken on purpose: see build/mutants.txt.
const warmFirst = false
