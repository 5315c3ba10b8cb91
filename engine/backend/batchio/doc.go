// Package batchio works out what belongs to a batch and to none of its requests alone: which inputs are ragged, the
// batch inputs that tell the model how the requests lie in them, and how outputs are cut by the shape of an input.
// It serves the backends, which own the memory. No goroutines.
package batchio
