//go:build mutant_await_drains

package lifecycle

// awaitDrains is broken on purpose: see build/mutants.txt.
const awaitDrains = false
