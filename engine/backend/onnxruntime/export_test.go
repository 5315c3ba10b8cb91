package onnxruntime

import (
	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
)

// FakeGPUs makes instances on GPUs run on the CPU, with host memory in place of GPU memory. All other code is real.
func (b *Backend) FakeGPUs() { b.fakeGPU = capi.CPU }

// FillRuns makes all runs on GPUs be filled up, as those of models with convolutions.
func (b *Backend) FillRuns() { b.fillAll = true }

// RunRows returns the number of rows of an instance's last run.
func RunRows(x backend.Instance) int { return x.(*instance).rows }

// SteadyRows returns the function that chooses the rows of runs of a model with this max_batch_size.
func SteadyRows(most int) func(n int) int {
	s := &steadyRows{most: most}
	return func(n int) int { return s.take(n, nil) }
}

// FakeGPUsWithoutMemory makes instances on GPUs run on the CPU, where ONNX Runtime does not accept GPU memory.
func (b *Backend) FakeGPUsWithoutMemory() { b.fakeGPU = capi.CUDA }
