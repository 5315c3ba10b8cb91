//go:build !mutant_keep_outputs

package onnxruntime

// keepOutputs says that an output's memory stays until the last answer with it is read.
const keepOutputs = true
