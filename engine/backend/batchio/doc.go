// Package batchio helps backends to form batches: it knows the ragged inputs, computes the batch inputs that describe
// the requests of a batch, and splits outputs by the shape of an input. It starts no goroutines.
package batchio
