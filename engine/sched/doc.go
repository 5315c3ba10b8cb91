// Package sched decides which waiting requests run together, and when.
//
// It does not run them (package instance does) and starts no goroutine: a free instance calls Next, which returns once
// a batch is due. So a batch is cut at the last moment, when it can be largest.
package sched
