// Package nvml is the device.Driver for NVIDIA's cards: it asks libnvidia-ml, which is part of their driver and is loaded
// when it is needed, never linked. It starts no goroutine.
package nvml
