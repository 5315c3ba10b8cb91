// Package history records what happens in the engine as rows of the store, and has a live view of the last minute.
//
// Once a second a Recorder reads the counters of every loaded version and computes the difference from the second
// before. It passes the difference to the store and to its listeners, so that charts of the past and of the present use
// the same numbers. Seconds in which nothing happened are not stored. The spans of time in which a version was loaded
// are stored, so that a reader can tell an idle version from one that was not loaded.
//
// Run is the only goroutine. The caller owns it.
package history
