// Command runner measures Nereid against the real Triton on this machine, interleaved: for each case the two servers
// take turns (A B, then B A, ...) within one run, so that a slow hour hits both. Reported are medians with the range.
//
// The reference comes from PyPI (build/bench/reference.sh): a real tritonserver 2.51.0 with Python models. It has no
// ONNX Runtime backend, so two things are compared: the front end alone (its response cache, every request a hit,
// against our builtin identity, and against ours with its response cache) and mlp (its model.py that calls onnxruntime against our ONNX Runtime backend).
// Python models are the same files on both servers, with the same Python. Tensors of 1 MiB are compared with an echo program over the same HTTP library, and over both of gRPC's; idle connections, the start and the
// history are measured on ours alone, and so is what follows when the process of a Python model ends: in how many ways it can, how soon
// its request fails, and when the model answers again. The load comes from build/bench/loadgen.
package main
