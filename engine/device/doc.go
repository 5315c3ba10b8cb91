// Package device knows the machine that models run on: its CPUs and its GPUs. It places nothing itself: package instance
// does, from what this package says. It starts no goroutine.
package device
