// Package stats keeps the statistics of requests per model version: counts, times, batch sizes and a latency histogram.
// It is the only source of the statistics API, the metrics, the GUI and the history.
//
// A Registry holds them by model and version. They survive a reload of the version and are removed when it is
// unloaded. If it is loaded again, its new epoch shows readers that the counters start again. The package starts no
// goroutine.
package stats
