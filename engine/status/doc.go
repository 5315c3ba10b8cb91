// Package status holds Triton's error codes and the one error type that carries them.
//
// The code that detects an error chooses its code. Callers wrap the error with %w and add context. The HTTP and gRPC
// layers translate the code into theirs. The package starts no goroutine.
package status
