//go:build mutant_limiter_turn

package instance

// Broken on purpose: see build/mutants.txt.
const (
	giveBack = true
	inTurn   = false
)
