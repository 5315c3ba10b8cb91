//go:build mutant_keep_outputs

package onnxruntime

// keepOutputs is broken on purpose: see build/mutants.txt.
const keepOutputs = false
