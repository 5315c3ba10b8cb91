// Package store keeps what a Nereid server has to remember in one SQLite database: samples of what each model version
// did, requests, events, revisions of model configurations, tunings, settings and access tokens. It does not know the
// engine.
//
// # Promises
//
// A revision or a setting that was acknowledged (AddRevision, SetSetting returned nil) survives kill -9 and the loss of
// power: it is committed with synchronous=FULL. Samples, requests and events are committed once a second with
// synchronous=NORMAL. kill -9 loses at most their last second, and never leaves a database that does not open.
//
// Recording never waits: RecordSamples, RecordRequests and RecordEvent put their rows into bounded queues and return.
// If the database is too slow or cannot be written (disk full, read-only), rows wait in memory up to a limit. Then the
// oldest are dropped and counted (Health). Writing resumes when it becomes possible again.
//
// # Data
//
// Times are microseconds since 1970-01-01 UTC, as integers, with the unit in the name. Samples of one second are also
// added, in the same transaction, to the samples of their minute and hour. So the coarser rows are always exact sums of
// the finer ones. Each resolution has an age limit, requests have a limit of number, and the database has a size
// limit. Latencies are kept as a
// Histogram, which can be merged without loss; see histogram.go for the format.
//
// # Goroutines
//
// Open starts one goroutine, the writer, which owns the only connection that writes. Close stops it after the queues
// are written, and waits for it. Readers use other connections and do not wait for the writer (WAL).
package store
