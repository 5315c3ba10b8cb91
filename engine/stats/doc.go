// Package stats keeps what happened to requests, per model version: counts, times, batch sizes and a latency
// histogram. It is the one source of the statistics API, the metrics, the GUI and the history.
//
// Numbers live in a Registry keyed by model and version. They survive a reload of the version and go at its unload;
// a new epoch then tells readers that the counters start again. No goroutines.
package stats
