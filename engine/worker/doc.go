// Package worker executes batches in processes of models. It sends requests to a process, reads its responses,
// answers what the process asks of the server, and starts the process again when it ends.
//
// The package does not know which language a process is written in: frames/PROTOCOL.md is the contract. A backend
// makes one Launcher and describes a process by a Spec. It executes batches on the Worker that Start returns, or on a
// Supervisor, which replaces a worker that has ended. A fault in a process fails the requests that it had and nothing
// else. Suspects refuse inputs that crash processes, and a watch kills a process that works for no client. Serve is the
// other side of the protocol, for processes that are written in Go.
//
// The parts below it: frames encodes and decodes messages, arena is the shared memory, process starts and limits
// processes.
//
// Goroutines: a Worker has four: one reads frames, two read output, one waits for the end of the process. Kill and
// Close end them all. Each call of a process into the server has one more. A Supervisor has one.
package worker
