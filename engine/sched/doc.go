// Package sched decides which waiting requests are executed together, and when.
//
// It does not execute them (package instance does) and starts no goroutine. A free instance calls Next, which returns
// when a batch is due. So a batch is formed as late as possible, when it can be largest.
//
// Files: dynamic.go has the default scheduler and the dynamic batcher, with its order in queue.go and the forming of
// batches in batch.go. sequence*.go has the sequence batcher. policy.go has what a configuration says.
package sched
