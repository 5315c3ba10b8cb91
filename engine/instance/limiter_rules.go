//go:build !mutant_limiter_leak && !mutant_limiter_turn

package instance

const (
	// giveBack says that leave to run which nobody waits for any more goes back.
	giveBack = true
	// inTurn says that nobody takes what somebody before him waits for.
	inTurn = true
)
