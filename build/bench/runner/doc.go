// Command runner measures Nereid against the real Triton on this machine. For each case the servers take turns (A B,
// then B A, …) within one run, so that a slow hour hits both. It reports medians with the range.
//
// The reference comes from PyPI (build/bench/reference.sh): a real tritonserver 2.51.0 with Python models. It has no
// ONNX Runtime backend, so two things are compared. The identity and cached loads measure the front end alone: the
// reference answers every request from its response cache, ours from its builtin identity or its own cache. The mlp
// loads compare the reference's model.py that calls onnxruntime with our ONNX Runtime backend.
//
// Python models are the same files on both servers, with the same Python, and a backend library is the same file.
// A bound function is the same one in our package and in PyTriton (build/bench/bound.py).
// So are those of the pipeline of docs/examples/ocr; its networks run with onnxruntime in Python on the reference.
// The library is also compared with ONNX Runtime in a process of ours. Tensors of 1 MiB are compared with echo
// programs over the libraries for HTTP and gRPC. Idle connections, the start, the history, the records of requests,
// instances and the recovery from exits of a model's process are measured on our server alone. The load comes from
// build/bench/loadgen.
package main
