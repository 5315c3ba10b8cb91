// Package httpapi serves the KServe v2 inference protocol and Triton's extensions of it over HTTP/1.1.
//
// It turns requests into infer.Request values and engine calls, and their results into the replies that a Triton
// server gives: same routes, bodies, headers and error texts. Where a reply differs on purpose, package deviation lists
// both answers. What the engine checks (shapes, types, names) is not checked again here; this package checks syntax, JSON
// types, and sizes against what was sent.
//
// The protocol code knows an exchange (one request and its reply); only transport.go knows the HTTP library.
//
// Goroutines: one per connection that is not parked (see park.go), one watcher per server that enforces the time limits
// and notices clients that went away, and one that waits for what the parked connections send. Serve starts them,
// Shutdown waits for them.
package httpapi
