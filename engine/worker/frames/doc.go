// Package frames encodes and decodes the messages between the server and a model's process. PROTOCOL.md is the
// contract.
//
// An Encoder builds one frame at a time, a Decoder reads one at a time; each belongs to one goroutine. Small tensors
// travel in the frame, large ones in an arena that both sides map. A decoder does not trust what it reads: the other
// side may be broken, and may change the shared memory at any time.
package frames
