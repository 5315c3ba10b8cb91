// Package store keeps what a Nereid server has to remember in one SQLite database: samples of what each model
// version did, events, revisions of model configurations, and settings. It knows nothing of the engine.
//
// # Promises
//
// A revision or a setting that was acknowledged (AddRevision, SetSetting returned nil) survives the end of the
// process by kill -9 and the loss of power: it is committed with synchronous=FULL. Samples and events are committed
// once a second with synchronous=NORMAL: kill -9 loses at most the last second of them, and never leaves a database
// that does not open.
//
// Recording never waits: RecordSamples and RecordEvent put their rows into bounded queues and return. When the
// database falls behind or cannot be written (disk full, read-only), rows wait in memory up to a limit, then the
// oldest are dropped and counted (Health); writing resumes by itself.
//
// # Data
//
// Times are microseconds since 1970-01-01 UTC, as integers, with the unit in the name. Samples of one second are
// also added, in the same transaction, to the samples of their minute and hour, so the coarser rows are exact sums
// of the finer ones at any moment. Each resolution has its own age limit, and the whole database a size limit.
// Latencies are kept as a Histogram, which can be merged without loss; see histogram.go for the format.
//
// # Goroutines
//
// Open starts one goroutine, the writer: it owns the only connection that writes. Close stops it, after the queues
// are written, and waits for it. Readers use their own connections and do not wait for the writer (WAL).
package store
