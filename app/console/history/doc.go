// Package history serves the recorded past of the models to the console: time series, events, and the last minute. It
// also publishes new samples and events to the console's event streams.
//
// The package starts no goroutine. Publishing runs on the goroutine of the recorder.
package history
