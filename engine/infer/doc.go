// Package infer holds one inference request, the stream of its responses and its time stamps.
//
// A caller (a protocol handler, an ensemble, a Go program) makes a request and hands it to the engine. A backend
// answers it, and the caller releases it. Requests are reference counted: the caller has one reference, and the engine
// holds another from admission until the backend is done. The memory (the request, its input buffers, unread
// responses) is reused when the last reference is released, never at the final response. The package starts no
// goroutines.
package infer
