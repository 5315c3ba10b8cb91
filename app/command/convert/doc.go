// Package convert makes ONNX models of models of other frameworks, and other ONNX models of ONNX models, and compares
// the new model with the one before. The work is done by Python programs (folder python) in environments that are
// installed on demand; this package chooses them, reads their report, and writes the model folder.
package convert
