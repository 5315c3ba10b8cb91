"""Writes an ONNX image classifier of about the given size in MB, with random weights, to test loading.

    python big.py OUT.onnx MB

Input "image" FP32 [batch,3,224,224], output "scores" FP32 [batch,1000] (softmax). A convolutional trunk down to 7x7,
then as many 3x3 convolutions of 512 channels as the size needs (9.4 MB and 0.12 GMAC each). Takes a second or two.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TRUNK = [(3, 32, 4), (32, 64, 2), (64, 128, 2), (128, 512, 2)]  # channels in, channels out, stride: 224 to 7
CLASSES = 1000


def model(megabytes: float) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes, weights, current = [], [], "image"

    def weight(name, shape, fan_in):
        w = rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))
        weights.append(numpy_helper.from_array(w, name))
        return name

    def conv(cin, cout, stride):
        nonlocal current
        i = len(nodes)
        w = weight(f"weight_{i}", (cout, cin, 3, 3), cin * 9)
        nodes.append(helper.make_node("Conv", [current, w], [f"conv_{i}"], kernel_shape=[3, 3], strides=[stride] * 2,
                                      pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"conv_{i}"], [f"relu_{i}"]))
        current = f"relu_{i}"

    for cin, cout, stride in TRUNK:
        conv(cin, cout, stride)
    fixed = sum(9 * a * b for a, b, _ in TRUNK) + 512 * CLASSES
    for _ in range(max(0, round((megabytes * 1e6 / 4 - fixed) / (9 * 512 * 512)))):
        conv(512, 512, 1)
    nodes.append(helper.make_node("GlobalAveragePool", [current], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], axis=1))
    nodes.append(helper.make_node("MatMul", ["flat", weight("classes", (512, CLASSES), 512)], ["logits"]))
    nodes.append(helper.make_node("Softmax", ["logits"], ["scores"], axis=1))
    graph = helper.make_graph(
        nodes, "big", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                             producer_name="models-sample")


def main():
    try:
        out, megabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
        if len(sys.argv) != 3 or not 3 <= megabytes <= 1900:
            raise ValueError
    except (IndexError, ValueError):
        sys.exit("usage: big.py OUT.onnx MB (3 to 1900: an ONNX file without external data ends at 2 GB)")
    onnx.save(model(megabytes), out)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
