// Package trace keeps timelines of sampled requests: Triton's trace extension.
//
// A Tracer holds the trace settings of the server and of single models, decides which requests are followed, and writes
// their timelines off the request path: as Triton's JSON trace file, or to an OpenTelemetry collector. The time stamps are
// those of package infer, which every request has; a request that is not sampled costs one atomic load.
//
// It leaves to the front ends what only they know: when the bytes of a request came and those of the answer went. One
// goroutine, from New to Close, writes.
package trace
