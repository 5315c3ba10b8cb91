// Package batchio computes what concerns a batch as a whole: which inputs are ragged, the batch inputs that describe
// how the requests are arranged in them, and how outputs are split by the shape of an input. Backends, which own the
// memory, use it. It starts no goroutines.
package batchio
