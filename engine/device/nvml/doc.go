// Package nvml is the device.Driver for NVIDIA's GPUs. It uses libnvidia-ml, a part of NVIDIA's driver, which is
// loaded when it is needed and not linked. It starts no goroutine.
package nvml
