// Package convert converts models of other frameworks to ONNX, and ONNX models to a lower precision. It compares the
// outputs of the new model with those of the original.
//
// Python programs (folder python) do the work, in environments that are installed on demand. This package chooses the
// program and the environment, reads the program's report, and writes the model folder.
package convert
