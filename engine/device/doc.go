// Package device describes the machine that models run on: its CPUs and its GPUs. Package instance uses it to place
// models. A Machine starts one goroutine for each question to the driver of GPUs, which ends with the answer.
package device
