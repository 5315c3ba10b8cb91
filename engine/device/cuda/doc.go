// Package cuda opens device memory that other processes exported, through NVIDIA's driver, for package shm. It also
// allocates and copies memory for package gpumem.
//
// It has content only with the build tag "cuda" on Linux for x86_64. build/setup/cuda.py prepares what the tag needs,
// and "make build" uses the tag if that succeeds. The driver's library is loaded at the first use and not linked, so
// that the program also starts on machines without it. Contexts, streams and devices are those of gorgonia.org/cu;
// the calls that it lacks are made here. The package starts no goroutine.
package cuda
