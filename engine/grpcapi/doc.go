// Package grpcapi serves inference.GRPCInferenceService and grpc.health.v1 over gRPC.
//
// The two hot messages have a separate codec: a ModelInferRequest becomes an *infer.Request whose tensors are views
// of the received memory, and an *infer.Response becomes buffers that refer to the output memory. Every other message
// goes through the generated types. The package checks what is the wire's: syntax, the typed contents against their
// datatype, the reserved parameters. Models, shapes and sizes are the engine's.
//
// Package h2 carries the calls. A ModelInfer has no goroutine: see inline.go. The tests run over grpc-go's server
// too.
//
// Goroutines: those of package h2 (two per connection, and one per call other than ModelInfer) and, for a stream, one
// that receives and one that sends the responses of decoupled models. If a model has been reloaded meanwhile, a request
// to a decoupled one may have its own. Shutdown waits for all of them.
package grpcapi
