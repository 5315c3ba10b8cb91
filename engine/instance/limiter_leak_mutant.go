//go:build mutant_limiter_leak

package instance

// Broken on purpose: see build/mutants.txt.
const (
	giveBack = false
	inTurn   = true
)
