// Package shm keeps the memory that clients share with the server: regions by name, so that requests need not contain
// the tensors.
//
// A system region is a part of an object under /dev/shm. A CUDA region is device memory that another process
// exported. Both kinds share one set of names. The package reads inputs from regions and writes outputs to them; the
// front ends decide which tensor is where. It starts no goroutine.
//
// The client may change or shrink the memory at any time. So it is read once, into the server's own memory, and
// written once, by a copy that fails if a page no longer exists: a shrunk object is an error of the request, and does
// not crash the process. Only Options.Direct uses the memory in place.
//
// Texts and codes are those of Triton's shared memory extension.
package shm
