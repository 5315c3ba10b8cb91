// Package isolation runs models of a backend in processes of this program. A fault in a model's file, or in the
// library that executes it, ends only that instance, and all its memory is released with the process.
//
// On the server's side, each instance of a Model is one process, which is started again when it ends. In the process,
// Serve makes the backend, loads one model and executes one instance of it. The two sides speak the protocol of
// package worker. The server's calls are "signature" and "load", both with a loadCall, and "instance", with a
// placement. Supervisors, the processes of a model's instances, are also for other backends that have one process for
// each instance.
//
// Goroutines: those of package worker.
package isolation
