// Package process starts and kills the processes of models. It limits what they take, puts their output into the log,
// and makes the memory and the socket that they share with the server. A guard kills them all when the server is
// killed. The package also decides when a process that has ended is started again.
//
// It does not know what a process says on its socket. Linux only; elsewhere Start returns Unsupported.
//
// Goroutines: a Launcher has one, which keeps the thread that starts processes, because the kernel ties a child's
// parent-death signal to that thread. An Output has one for each pipe that it reads.
package process
