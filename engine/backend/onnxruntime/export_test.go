package onnxruntime

import "nereid/engine/backend/onnxruntime/capi"

// Pretend makes instances on GPUs run on the CPU, with the host's memory for the GPUs': all but the card is real.
func (b *Backend) Pretend() { b.pretend = capi.CPU }

// PretendWithoutProvider makes instances on GPUs run on the CPU, where nobody knows the GPUs' memory.
func (b *Backend) PretendWithoutProvider() { b.pretend = capi.CUDA }
