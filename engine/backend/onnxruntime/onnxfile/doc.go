// Package onnxfile checks ONNX model files before a runtime loads them. It refuses tensors that declare more data than
// the file has, and external data outside the model's folder. It finds the operators that a client's values could
// crash (hazards.go). It reads the structure and skips the weights.
//
// Source of the format: onnx.proto, the definition of ModelProto in the ONNX project. No goroutines.
package onnxfile
