// Package onnxruntime is the backend "onnxruntime": ONNX models, run in this process by libonnxruntime.
//
// The library is not linked: it is opened at the first model, from the first of these places that has it: the path in
// Options, the runtime folder in Options, the copy inside the program, lib/nereid beside the program's folder,
// /usr/lib/nereid, the system's own. package onnxruntime_go makes session options and execution providers; package capi
// does the rest.
//
// A batch of one request is run on the request's own memory; several are first copied together. Outputs are handed out
// in ONNX Runtime's memory, which goes when the last row is released. Small inputs and outputs are copied to and from
// memory that stays with the instance, so that a run need not make values around it.
//
// Instances of a model without thread counts share one session. It computes on the process's pool of threads, or if the
// model is so light that waking them costs more than it saves, on the calling thread alone. ONNX Runtime owns the
// threads; this package starts no goroutine, but each instance has a timer that looks at runs that take long.
package onnxruntime
