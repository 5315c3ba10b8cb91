// Package sched decides which waiting requests are executed together, and when.
//
// It does not execute them (package instance does) and starts no goroutine. A free instance calls Next, which returns
// when a batch is due. So a batch is formed as late as possible, when it can be largest.
package sched
