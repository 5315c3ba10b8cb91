// Package affinity keeps threads of the operating system to cores, and their memory to NUMA nodes: what Triton calls a
// host policy. It starts no goroutine and keeps no state; the caller locks its goroutine to a thread first.
package affinity
