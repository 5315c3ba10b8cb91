"""Writes text_detection as a SavedModel of TensorFlow: tensorflow_detection.py WEIGHTS.npz FOLDER

WEIGHTS has the constants of the ONNX file by name (build/scripts/style/weights.py). The tensors are those of
detection.py, and have the guide's names in the graph and in its signature.
"""

import sys

import numpy as np
import tensorflow as tf

SOURCE = "input_images:0"
SCORE, GEOMETRY = "feature_fusion/Conv_7/Sigmoid:0", "feature_fusion/concat_3:0"


def network(weights):
    """The function of Detection.forward in detection.py. The ONNX exporter has folded each normalisation into the
    convolution before it, whose constants it numbers in their order."""
    folded = sorted((name for name in weights if name.startswith("onnx::Conv_")),
                    key=lambda n: int(n.rsplit("_", 1)[1]))
    folded = iter(folded)

    def convolution(x, kernel, bias, stride=1, dilation=1):
        edge = dilation * (kernel.shape[2] // 2)
        padding = [[0, 0], [edge, edge], [edge, edge], [0, 0]]
        return tf.nn.conv2d(x, kernel.transpose(2, 3, 1, 0), stride, padding, dilations=dilation) + bias

    def unit(x, stride=1, dilation=1):
        return tf.nn.relu(convolution(x, weights[next(folded)], weights[next(folded)], stride, dilation))

    def named(x, name):
        return convolution(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def twice(x):
        return tf.repeat(tf.repeat(x, 2, 1), 2, 2)

    def run(pictures):
        x = tf.reduce_mean(pictures, 3, keepdims=True)
        x, seen = (x - tf.reduce_mean(x, (1, 2), keepdims=True)) / 64, []
        for _ in range(5):
            x = unit(x, 2)
            seen.append(x)
        x = named(x + unit(unit(x, 1, 2), 1, 2), "side.3")
        for i in (2, 1, 0):
            x = unit(twice(x) + named(seen[i + 1], f"side.{i}"))
        x = named(x, "head")
        edges, angle = 16 * tf.exp(tf.clip_by_value(x[..., 1:5], -4, 4)), 0.5 * tf.tanh(x[..., 5:])
        score = tf.sigmoid(x[..., :1], SCORE.removesuffix(":0"))
        return {SCORE: score, GEOMETRY: tf.concat((edges, angle), 3, GEOMETRY.removesuffix(":0"))}

    return run


def save(weights, folder):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        pictures = v1.placeholder(tf.float32, [None, None, None, 3], "input_images")
        outputs = network(weights)(pictures)
        assert all(tensor.name == name for name, tensor in outputs.items())
        signature = v1.saved_model.predict_signature_def({SOURCE: pictures}, outputs)
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


if __name__ == "__main__":
    save(dict(np.load(sys.argv[1])), sys.argv[2])
