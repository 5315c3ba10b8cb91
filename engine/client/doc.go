// Package client is a client of the KServe v2 protocol with Triton's extensions, over HTTP or gRPC.
//
// Make a client with NewHTTP or NewGRPC; both have the methods of Client. Of and Strings make tensors; Values and
// StringValues read them. Tensors are sent in binary form unless HTTPOptions asks for JSON. Use GRPC.Stream for
// decoupled models.
//
// A client is safe for concurrent use. HTTP keeps connections open in the http.Client that it uses. A Stream has the
// goroutines of its gRPC call, which end when it is read to the end or its context is done. Nothing is retried.
package client
