// Package infer holds one inference request, the stream of its responses and its time stamps.
//
// A request is made by a caller (a protocol handler, an ensemble, a Go program), handed to the engine, answered by a
// backend and let go by the caller. It counts references: the caller has one, the engine takes another when it admits
// the request and drops it when the backend is done with it. Memory (the request itself, its input buffers, responses
// nobody read) is reused when the last one goes, never at the final response. No goroutines.
package infer
