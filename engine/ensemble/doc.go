// Package ensemble runs a graph of models as one model. Each step is a request to another model, whose inputs are
// inputs of the ensemble or outputs of earlier steps. Tensors pass between steps by reference.
//
// A step starts as soon as its inputs are present, so independent steps run concurrently. The steps that follow a
// decoupled model run once for each of its responses; the responses of the ensemble keep their order. A tensor that a
// step does not send is left out for the steps that follow, and from the response.
//
// One goroutine runs a request, and one more runs each step that executes concurrently with others.
package ensemble
