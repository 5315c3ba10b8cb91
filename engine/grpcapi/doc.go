// Package grpcapi serves inference.GRPCInferenceService and grpc.health.v1 over gRPC.
//
// The two hot messages have a codec of their own: a ModelInferRequest becomes an *infer.Request whose tensors are views
// of the received memory, and an *infer.Response becomes buffers that refer to the output memory. Every other message
// goes through the generated types. The package checks what is the wire's: syntax, the typed contents against their
// datatype, the reserved parameters. Models, shapes and sizes are the engine's.
//
// The calls come over package h2, or over grpc-go's server; a ModelInfer over h2 has no goroutine of its own (inlineInfer).
//
// Goroutines: those of the transport (two per connection; one per call, but for ModelInfer over h2) and, for a stream, one
// that receives and one per decoupled request. Shutdown waits for all of them.
package grpcapi
