// Package h2 is the server side of gRPC over HTTP/2, for services whose calls are short and many.
//
// It is used as grpc.Server is: services are registered with google.golang.org/grpc's descriptions, handlers get a
// grpc.ServerStream, and errors, metadata and peers are those of that library. The difference is in unary calls whose
// method is an Inline. The goroutine that reads the connection decodes the message and starts the call. The answers of
// many such calls are written at once. No goroutine, channel or context is made for such a call.
//
// Protocol: RFC 9113 (HTTP/2 with prior knowledge, or TLS with ALPN "h2"), RFC 7541 (HPACK), and gRPC's mapping onto it
// ("gRPC over HTTP2" in gRPC's documentation). Priorities are ignored; nothing is pushed.
//
// Memory: four limits bound what one connection can make the server hold. They are the flow-control windows, and the
// limits on concurrent calls, headers and unsent bytes. The buffer of a message grows with the bytes that have come,
// not with the length that its prefix announces.
//
// Goroutines: a reader and a writer per connection, and one per call that is not inline. Stop and GracefulStop wait for
// all of them.
package h2
