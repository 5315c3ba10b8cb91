// Package capi is the part of ONNX Runtime's C API that package onnxruntime_go lacks, with few calls between Go and C:
// the environment with its shared thread pool, sessions with symbolic dimensions, and runs that read Go memory in place
// and return ONNX Runtime's memory.
//
// The library is opened, never linked. The process opens it and its environment once and never closes them. ONNX
// Runtime owns the threads. After a run that left memory for later ones, a timer frees it when it is not used.
package capi
