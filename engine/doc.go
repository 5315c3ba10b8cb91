// Package engine serves model repositories: one object that loads models, runs inference requests on them and says how
// they do. The protocol front ends and the GUI are its users; so is any Go program that wants inference without a port
// (see the example of New).
//
// Goroutines: those of its parts (see lifecycle, instance, repo). Close ends them all.
package engine
