// Package device describes the machine that models run on: its CPUs and its GPUs. Package instance uses it to place
// models. It starts no goroutine.
package device
