// Package python runs models written in Python, each instance in its own process: Triton's Python backend.
//
// A process runs the machine's python3, or that of an environment which the model brings or asks for
// (environment.go). It runs the modules in pyrt, which follow the protocol of package worker. Package worker starts
// it, shares memory with it and restarts it. A process that has completed a model's configuration becomes the model's
// first instance.
//
// Goroutines: one for each process that has completed a configuration and is not used yet; those of package worker.
package python
