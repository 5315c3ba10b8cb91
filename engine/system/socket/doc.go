// Package socket makes the small reads and writes of connections cheaper than package net's.
//
// Package net tells the scheduler of each system call, so that a processor is not held up by one that takes long, and
// where all processors were idle before, that wakes a thread of the runtime. A small read or write of a socket, which
// does not block, never takes long. Here it is made without that. Large transfers, deadlines and closing remain package
// net's. It starts no goroutine.
package socket
