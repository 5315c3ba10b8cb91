// Package gpumem has the memory through which tensors reach GPUs: page-locked ("pinned") memory of the host, which a GPU's
// copy engines can read and write without the help of a core, and memory on each GPU in which the parts of a batch are put together.
//
// Both come from pools that are allocated at first use, whole, and bounded by options. Who gets nothing, because a pool is used
// up or cannot be had, does without: with ordinary memory, or by way of the host. That is counted, and logged once. A nil
// *Memory has nothing. The package starts no goroutine; what it needs of CUDA is behind Driver.
package gpumem
