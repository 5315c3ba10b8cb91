// Package worker runs processes that execute models: it starts them, shares memory with them, speaks with them in frames,
// bounds what they take, notices their end and starts them again.
//
// It knows nothing of what a worker is written in: PROTOCOL.md beside this file is the contract. A backend makes a Launcher
// once, describes a process by a Spec and executes batches on the Worker that Start returns. A fault in a worker fails
// the requests that it had and nothing else.
//
// Goroutines: a Launcher has one, on a thread of its own, which starts processes (the kernel ties a child's parent-death
// signal to that thread). A Worker has four: one reads its frames, two its output, one waits for its end; Close ends
// them all. Each call that a worker makes into the server runs on a goroutine of its own.
package worker
