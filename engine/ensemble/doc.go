// Package ensemble is the scheduler that runs a graph of models: each step is a request to another model, its inputs
// are tensors of the ensemble or of earlier steps. Tensors pass between steps by reference.
//
// A step starts as soon as its inputs are there, so branches run at the same time. A step whose model is decoupled
// makes what follows run once for each of its responses; the ensemble's responses keep their order. One goroutine
// drives a request, another each branch beside it.
package ensemble
