// Package onnxruntime is the backend "onnxruntime": it runs ONNX models in this process with libonnxruntime.
//
// The library is not linked. The first model opens it. It is searched in this order: Options.Library,
// Options.RuntimeFolder, the copy inside the program, ../lib/nereid beside the program's folder, /usr/lib/nereid, and
// the system's library path. Package onnxruntime_go makes session options and execution providers; package capi does
// the rest.
//
// A single request is run on its own memory; the inputs of several requests are concatenated first. Responses refer to
// ONNX Runtime's memory, which is released with the last of them. Small inputs and outputs are copied to and from
// memory of the instance, so that ONNX Runtime's values around that memory can be reused.
//
// A model runs in processes (package isolation) if its configuration says so, or if package onnxfile finds an operator
// whose inputs from a client could crash the process. Package capi survives integer divisions that trap.
//
// Instances of a model without thread counts share one session. It computes on the thread pool of the process. A light
// model computes on the calling thread only, because waking other threads would cost more than it gains. ONNX Runtime
// owns the threads. This package starts no goroutines; a timer per instance cancels long runs.
package onnxruntime
