// Package python runs models written in Python, each instance in a process of its own: Triton's Python backend.
//
// The process is the machine's python3, or one of an environment that the model brings or asks for (see
// environment.go). It runs our modules in pyrt, which speak the protocol of package worker; package worker starts it,
// shares memory with it and starts it again when it ends. A process that has completed a model's configuration goes
// on as its first instance. One goroutine for each such process that waits to be claimed; others are package
// worker's.
package python
