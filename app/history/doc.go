// Package history turns what happens in the engine into rows of the store, and into the live view of the last minute.
//
// Once a second a Recorder reads the counters of every loaded version, takes the difference to the second before, and
// hands it to the store and to its listeners. That difference is made here only, so that the charts of the past and
// of the present cannot disagree. Seconds in which nothing happened are not stored; spans of time in which a version
// was loaded are, so that a reader can tell an idle version from one that was away.
//
// Run is the one goroutine, owned by the caller.
package history
