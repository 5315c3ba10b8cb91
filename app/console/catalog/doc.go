// Package catalog finds the models of a server, in the engine and in the folders of its repositories, and shows them
// as package api defines them. It has one lock for each model name: a change of a model's folder or configuration is
// made under that lock.
//
// The package starts no goroutine.
package catalog
