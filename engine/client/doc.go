// Package client speaks the KServe v2 protocol with Triton's extensions to any server that serves it, over HTTP or gRPC.
//
// Dial with NewHTTP or NewGRPC; both have the methods of Client. Tensors are made with Of and Strings and read with Values
// and StringValues; their bytes travel in the binary form unless
// HTTPOptions asks for JSON. Decoupled models answer over GRPC.Stream.
//
// A client is safe for concurrent use. HTTP keeps connections open in the http.Client that it uses; a Stream has the
// goroutines of its gRPC call, which end when it is read to the end or its context is done. Nothing is retried.
package client
