// Package process starts the processes of models and ends them: with limits on what they take, their output in the
// log, the memory and the socket that they share with the server, and a guard that ends them all when the server is
// killed. It also decides when a process that has ended is started again.
//
// It does not know what a process says on its socket. Linux only; elsewhere Start returns Unsupported.
//
// Goroutines: a Launcher has one, which keeps the thread that starts processes, because the kernel ties a child's
// parent-death signal to that thread. An Output has one for each pipe that it reads.
package process
