// Package affinity binds operating system threads to cores, and their memory to NUMA nodes: Triton's host policies.
// It keeps no state and starts no goroutines, except in Run. The caller must lock its goroutine to a thread first.
package affinity
