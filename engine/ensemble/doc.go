// Package ensemble runs a graph of models as one model. Each step is a request to another model, whose inputs are
// inputs of the ensemble or outputs of earlier steps. Tensors pass between steps by reference.
//
// A step starts as soon as its inputs are present, so independent steps run concurrently. The steps that follow a
// decoupled model run once for each of its responses; the responses of the ensemble keep their order. If a step does
// not send a tensor, the steps that follow run without it, and the response lacks it.
//
// One goroutine runs a request, and one more runs each step that executes concurrently with others.
package ensemble
