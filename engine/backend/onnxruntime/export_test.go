package onnxruntime

// Pretend makes instances on GPUs run on the CPU, with the host's memory for the GPUs': all but the card is real.
func (b *Backend) Pretend() { b.pretend = true }
