// Package status holds Triton's error codes and the one error type that carries them.
//
// An error gets its code once, where the fault is found. Everything above wraps it with %w and adds words;
// the HTTP and gRPC layers turn the code into theirs. No goroutines.
package status
