// Package capi is the part of ONNX Runtime's C API that package onnxruntime_go lacks, called with few crossings between
// Go and C: the environment with its shared pool of threads, sessions with symbolic dimensions, and a run that takes
// views of Go memory in and hands ONNX Runtime's own memory out.
//
// The library is opened, never linked. It and its environment belong to the process: they are opened once and stay.
// Threads belong to ONNX Runtime; there are no goroutines here.
package capi
