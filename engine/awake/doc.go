// Package awake keeps a machine's cores from sleeping while somebody waits for what another thread will have in some
// microseconds. A core that idles is halted; to wake it costs little on bare metal and 25 to 50 us on a virtual machine, each
// time that one thread waits for another, which is more than a brief request takes.
//
// A Keeper has one thread for each core that it may run on. They are of the kernel's idle class, so that every other thread of
// the same control group goes before them, and hold no part of Go's runtime. Between groups that share the cores by weight, as
// containers do, the kernel weighs the groups: there the threads take of the group's share what it leaves. They run only until a
// moment that the caller puts off from request to request; then they sleep. When that is worth it is the caller's to know.
//
// It starts threads of C, no goroutines.
package awake
