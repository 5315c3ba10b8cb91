package onnxruntime

import "nereid/engine/backend/onnxruntime/capi"

// FakeGPUs makes instances on GPUs run on the CPU, with host memory in place of GPU memory. All other code is real.
func (b *Backend) FakeGPUs() { b.fakeGPU = capi.CPU }

// FakeGPUsWithoutMemory makes instances on GPUs run on the CPU, where ONNX Runtime does not accept GPU memory.
func (b *Backend) FakeGPUsWithoutMemory() { b.fakeGPU = capi.CUDA }
