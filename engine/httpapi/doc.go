// Package httpapi serves the KServe v2 inference protocol and Triton's extensions of it over HTTP/1.1.
//
// It turns requests into infer.Request values and engine calls, and their results into the replies that a Triton server
// gives: same routes, bodies, headers and error texts. The engine checks shapes, types and names. This package checks
// syntax, JSON types, and sizes against what was sent. Package tensorjson reads and writes the JSON; package compat has
// what other protocols do differently.
//
// A request goes this way: connections (connections.go, watch.go, idle.go) → the HTTP library (transport.go) →
// Server.serve (server.go) → a handler of the table of routes (routes.go). Handlers work on an exchange, one request
// and its reply; only transport.go knows the HTTP library.
//
// Goroutines: one per connection that has had a request recently, and two per server. The watcher enforces the time
// limits and notices clients that left. The other one waits for input on the idle connections. Serve starts them,
// Shutdown waits for them.
package httpapi
