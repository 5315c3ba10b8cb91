// Package gpumem has the memory through which tensors reach GPUs. Page-locked ("pinned") memory of the host can be
// read and written by a GPU's copy engines without the help of a core. Memory on each GPU is used to assemble
// batches.
//
// Both come from pools, which are allocated as a whole at the first use and bounded by options. If a pool is
// exhausted or cannot be allocated, the caller uses ordinary memory or copies through the host. This is counted, and
// logged once. A nil *Memory has no memory. The package starts no goroutine. Driver is what it needs of CUDA.
package gpumem
