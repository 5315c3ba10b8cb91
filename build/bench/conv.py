"""The convolution case of the benchmark: creates the network, and runs it on ONNX Runtime without a server.

conv.py make PATH                     writes a small residual network, 3x64x64 pictures to 10 scores, random weights
conv.py run PATH THREADS SECONDS      runs it as fast as possible, one picture at a time, and prints runs per second and
                                      microseconds of CPU time per run as JSON
Needs the packages onnx, numpy and onnxruntime.
"""

import json
import sys
import time

import numpy as np


def make(path):
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper as nh

    rng, nodes, weights = np.random.default_rng(1), [], []

    def weight(name, shape):
        scale = np.sqrt(2 / np.prod(shape[1:]))
        weights.append(nh.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def conv(x, name, cin, cout, kernel=3, stride=1):
        pad = kernel // 2
        bias = nh.from_array(np.zeros(cout, np.float32), name + "_b")
        weights.append(bias)
        nodes.append(h.make_node("Conv", [x, weight(name + "_w", (cout, cin, kernel, kernel)), name + "_b"], [name],
                                 strides=[stride] * 2, pads=[pad] * 4, kernel_shape=[kernel] * 2))
        return name

    def node(op, inputs, name):
        nodes.append(h.make_node(op, inputs, [name]))
        return name

    x, width = node("Relu", [conv("image", "stem", 3, 32)], "stem_r"), 32
    for n, (cout, stride) in enumerate([(32, 1), (64, 2), (128, 2), (256, 2)]):
        a = node("Relu", [conv(x, f"b{n}_1", width, cout, stride=stride)], f"b{n}_1r")
        b = conv(a, f"b{n}_2", cout, cout)
        side = x if stride == 1 and cout == width else conv(x, f"b{n}_s", width, cout, kernel=1, stride=stride)
        x, width = node("Relu", [node("Add", [b, side], f"b{n}_a")], f"b{n}"), cout
    x = node("Flatten", [node("GlobalAveragePool", [x], "pool")], "flat")
    weight("head_w", (10, width))
    nodes.append(h.make_node("Gemm", [x, "head_w"], ["scores"], transB=1))
    graph = h.make_graph(nodes, "conv", [h.make_tensor_value_info("image", T.FLOAT, ["n", 3, 64, 64])],
                         [h.make_tensor_value_info("scores", T.FLOAT, ["n", 10])], weights)
    onnx.save_model(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8, producer_name=""), path)


def run(path, threads, seconds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = {"image": np.random.default_rng(2).random((1, 3, 64, 64), np.float32)}
    end = time.perf_counter() + min(1, seconds)
    while time.perf_counter() < end:  # warms up the caches
        session.run(None, x)
    begin, cpu, runs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < begin + seconds:
        session.run(None, x)
        runs += 1
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"rate": runs / took, "server_us": used / runs * 1e6, "p50_ms": took / runs * 1e3}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        run(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
