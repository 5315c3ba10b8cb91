// Package socket has what a server needs of its connections beyond package net: cheap small reads and writes, a poll
// set for idle connections, and a check whether the peer closed its side. It starts no goroutines.
//
// Package net announces each system call to the Go scheduler, so that a slow one does not hold up a processor. If all
// processors were idle before, that wakes a thread of the runtime. A small read or write of a socket does not block
// and is never slow, so a Conn makes it without the announcement. Large transfers, deadlines and closing are package
// net's.
package socket
