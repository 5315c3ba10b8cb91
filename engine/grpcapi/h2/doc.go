// Package h2 is the server side of gRPC over HTTP/2 for services whose calls are short and many.
//
// It stands where grpc.Server stands: services are registered with google.golang.org/grpc's descriptions, handlers get a
// grpc.ServerStream, errors are its statuses, metadata and peer are read as ever. What differs is the way of a unary
// call whose method is given as an Inline: its message is taken on the goroutine that reads the connection, and the
// answer is written by the connection's second goroutine, many answers in one write. No goroutine, channel or context
// is made for such a call.
//
// Protocol: RFC 9113 (HTTP/2, prior knowledge or TLS with ALPN "h2"), RFC 7541 (HPACK), and gRPC's mapping onto it
// ("gRPC over HTTP2" in the documents of grpc). Priorities are ignored; nothing is pushed.
//
// Memory: what a client makes the server hold is bounded per connection by the flow-control windows, the limit on
// concurrent calls, the header limit and the limit on unsent bytes; the buffer of a message grows with what has come of
// it, never with what its length announces.
//
// Goroutines: per connection one that reads and one that answers; per call that is not inline, one. Stop and GracefulStop
// wait for all of them.
package h2
