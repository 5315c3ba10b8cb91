"""Trains and writes the models digits (a small convolutional network) and mlp (784-512-512-10)."""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import fonts
import train
from simple import save

SEED = 20
DIGITS_EACH, DIGITS_EPOCHS = 12, 9  # pictures per font and digit; epochs
MLP_EACH, MLP_EPOCHS = 12, 10
# Words, so that a label differs from an index.
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def digits_layers(rng):
    return [train.Conv(rng, 5, 1, 16, first=True), train.ReLU(), train.Pool(),
            train.Conv(rng, 3, 16, 32), train.ReLU(), train.Pool(),
            train.Conv(rng, 3, 32, 48), train.ReLU(), train.Dropout(rng, 0.2),
            train.Dense(rng, 7 * 7 * 48, 64), train.ReLU(), train.Dropout(rng, 0.3),
            train.Dense(rng, 64, 10)]


def mlp_layers(rng):
    return [train.Dense(rng, 784, 512), train.ReLU(), train.Dropout(rng, 0.1),
            train.Dense(rng, 512, 512), train.ReLU(), train.Dropout(rng, 0.1), train.Dense(rng, 512, 10)]


def graph(name: str, layers, source, sink: str) -> "helper.GraphProto":
    """The ONNX graph of the layers, for NCHW input. Weights are transposed from NHWC, and a softmax is added."""
    nodes, weights, current, shape = [], [], source.name, None
    count = 0

    def node(op, inputs, **attributes):
        nonlocal count, current
        count += 1
        current = f"{op.lower()}_{count}"
        nodes.append(helper.make_node(op, inputs, [current], name=current, **attributes))

    def weight(array, what):
        n = f"{what}_{count + 1}"
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), n))
        return n

    flat = True
    for layer in layers:
        if isinstance(layer, train.Conv):
            w, b = layer.params
            k, cout = layer.k, len(b)
            w = w.reshape(k, k, -1, cout).transpose(3, 2, 0, 1)
            node("Conv", [current, weight(w, "weight"), weight(b, "bias")],
                 kernel_shape=[k, k], pads=[k // 2] * 4)
            flat, channels = False, cout
        elif isinstance(layer, train.Pool):
            node("MaxPool", [current], kernel_shape=[2, 2], strides=[2, 2])
        elif isinstance(layer, train.ReLU):
            node("Relu", [current])
        elif isinstance(layer, train.Dense):
            w, b = layer.params
            if not flat:
                node("Flatten", [current], axis=1)
                side = round((len(w) / channels) ** 0.5)
                w = w.reshape(side, side, channels, -1).transpose(2, 0, 1, 3).reshape(len(w), -1)
                flat = True
            node("Gemm", [current, weight(w, "weight"), weight(b, "bias")])
    nodes.append(helper.make_node("Softmax", [current], [sink], name="softmax", axis=1))
    return helper.make_graph(nodes, name, [source],
                             [helper.make_tensor_value_info(sink, TensorProto.FLOAT, ["batch", 10])], weights)


DIGITS_CONFIG = """\
# Which digit a picture shows. image: one channel, 28x28, 0 (black) to 1 (white); either may be the paper.
# scores: one probability for each line of labels.txt; ask for classification to get the label.
name: "digits"
backend: "onnxruntime"
max_batch_size: 32
input [
  {
    name: "image"
    data_type: TYPE_FP32
    format: FORMAT_NCHW
    dims: [ 1, 28, 28 ]
  }
]
output [
  {
    name: "scores"
    data_type: TYPE_FP32
    dims: [ 10 ]
    label_filename: "labels.txt"
  }
]
dynamic_batching { max_queue_delay_microseconds: 100 }
instance_group [ { count: 1 kind: KIND_CPU } ]
model_warmup [
  {
    name: "one picture"
    batch_size: 1
    inputs { key: "image" value { data_type: TYPE_FP32 dims: [ 1, 28, 28 ] zero_data: true } }
  },
  {
    name: "eight pictures"
    batch_size: 8
    inputs { key: "image" value { data_type: TYPE_FP32 dims: [ 1, 28, 28 ] random_data: true } }
  }
]
"""

MLP_CONFIG = """\
# The task of digits on flattened pictures, by plain layers 784-512-512-10: made for measuring dynamic batching.
name: "mlp"
backend: "onnxruntime"
max_batch_size: 64
input [ { name: "input" data_type: TYPE_FP32 dims: [ 784 ] } ]
output [ { name: "output" data_type: TYPE_FP32 dims: [ 10 ] } ]
dynamic_batching { }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""


def training_set(each: int):
    listed = fonts.read_list("fonts-train.txt")
    if gone := fonts.missing(listed):
        sys.exit(f"{len(gone)} fonts of fonts-train.txt are missing, the first is {gone[0].path}; run fonts.sh")
    return fonts.dataset(listed, each, SEED)


def make_digits(root: pathlib.Path):
    rng = np.random.default_rng(SEED + 1)
    layers = digits_layers(rng)
    x, y = training_set(DIGITS_EACH)
    train.fit(layers, x, y, DIGITS_EPOCHS, SEED + 2)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
    save(graph("digits", layers, image, "scores"), root / "digits")
    (root / "digits" / "config.pbtxt").write_text(DIGITS_CONFIG)
    (root / "digits" / "labels.txt").write_text("".join(w + "\n" for w in LABELS))


def make_mlp(root: pathlib.Path):
    rng = np.random.default_rng(SEED + 3)
    layers = mlp_layers(rng)
    x, y = training_set(MLP_EACH)
    train.fit(layers, x, y, MLP_EPOCHS, SEED + 4, rate=1e-3)
    source = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 784])
    save(graph("mlp", layers, source, "output"), root / "mlp")
    (root / "mlp" / "config.pbtxt").write_text(MLP_CONFIG)
