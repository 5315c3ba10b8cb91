// Package trace records timelines of sampled requests: Triton's trace extension.
//
// A Tracer holds the trace settings of the server and of single models, and decides which requests are traced. It
// writes their timelines as Triton's JSON trace file, or to an OpenTelemetry collector. The time stamps are those of
// package infer, which every request has. A request that is not sampled costs one atomic load.
//
// Files: encode.go has the form of the JSON file, otelspans.go the names and attributes of the spans, settings.go the
// settings.
//
// The front ends add when a request was received and when its answer was sent. One goroutine writes, from New to Close.
package trace
