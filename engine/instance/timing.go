package instance

import "time"

// The timing constants of the request path in this package.
const (
	// inlineMost is the longest mean time of an instance's executions for which a request may run on its own goroutine.
	// Below it the two goroutine switches of the queue are a noticeable part of a request; above it nobody could stop
	// an execution whose client is gone.
	inlineMost = 200 * time.Microsecond
	// seriesTime is how long the batches of a series may take together, as far as is known: a request that arrives
	// meanwhile waits for all of them, and no other instance can execute them.
	seriesTime = 2 * time.Millisecond
	// sliceMost is after how much time in executions an instance's goroutine lets others run, and the time from which
	// an execution counts as long. It is below the 10 ms after which the Go runtime interrupts a goroutine that never
	// waits.
	sliceMost = time.Millisecond
	// othersCheck is how often an instance that cannot execute looks whether other instances still can, and whether it
	// can again. Until then the requests in the queue, and its batch, wait for them.
	othersCheck = 100 * time.Millisecond
)
