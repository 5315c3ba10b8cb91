// Package cuda opens device memory that other processes exported, through NVIDIA's driver, for package shm.
//
// It has content only with the build tag "cuda" on Linux for x86_64: build/setup/cuda.py prepares what the tag needs, and
// "make build" uses it where that works. The driver's library is loaded at the first region and never linked, so the program
// starts, as fast, on machines without one. Contexts, streams and devices are gorgonia.org/cu's; the calls that it lacks are
// made here. It starts no goroutine.
package cuda
