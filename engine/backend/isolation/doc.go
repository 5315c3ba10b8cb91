// Package isolation runs models of a backend in processes of this program: a fault of a model's file or of the library that
// executes it costs that instance alone, and all its memory goes with the process.
//
// The server's side is a Model, whose instances are one process each, started again when it ends. The process's side is
// Serve, which has the backend that the process is for load one model and execute one instance of it. The two speak the
// protocol of package worker; the calls down are "signature" and "load" (both with a loadCall) and "instance" (with a
// placement). Keepers, the processes of a model's instances, serve other backends too that have one process an instance.
//
// Goroutines: those of package worker.
package isolation
