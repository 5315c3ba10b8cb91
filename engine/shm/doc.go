// Package shm keeps the memory that clients share with the server: regions by name, so that tensors need not travel in
// the requests.
//
// A system region is a part of an object under /dev/shm, a CUDA region one of device memory that another process exported.
// Both kinds share one set of names. The package reads inputs out of regions and writes outputs into them; which tensor
// lies where is the front ends' to say. It starts no goroutine.
//
// The memory stays the client's, who may change or shrink it at any time. So it is read once, into memory of the server's
// own, and written once, each by a copy that a page which is not there any more ends: a shrunk object is an error of the
// request, never a fault of the process. Using it where it is is left to Options.Direct.
//
// Texts and codes are those of Triton's shared memory extension.
package shm
