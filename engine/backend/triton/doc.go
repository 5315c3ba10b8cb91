// Package triton runs Triton's own backend libraries, libtriton_<name>.so, unmodified. It also runs libraries of
// response caches (Cache), of repository agents (Agent) and of batching strategies (Strategy), each in one process:
// libraryprocess.go has the server's side of such a process, libraryhost.go the other side.
//
// On the server's side, a Finder finds the library of a model, and a Backend runs each instance of the model in a
// process (package isolation). In the process, ServeWorker opens the library, which calls the C API of package capi.
// A crash of the library ends one instance.
//
// Goroutines: those of package worker. In the process, one reports to the server what the library does outside of
// executions, until the process exits. Another one serves each decoupled request whose client reads slowly. A strategy
// whose process failed has one that starts it again.
package triton
