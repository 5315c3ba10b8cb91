// Package engine serves model repositories. An Engine loads models, runs inference requests on them and reports their
// state and statistics. The protocol front ends and the GUI use it, and so can any Go program that needs inference
// without a network port (see the example of New).
//
// Its goroutines are those of the packages that it uses (see lifecycle, instance, repo). Close ends all of them.
package engine
