"""Converts a model to ONNX and compares the two. `nereid convert` runs it with the packages that the model needs.

usage: main.py ORDER

ORDER is JSON: kind, file, out (a folder), inputs (.npy, .npz, .csv, .json, a folder of pictures, or ""), scale, tolerance,
shapes (name, dtype and dims of inputs), class, arguments, trust, fp16, int8, simplify, opset (0: as it is), external and
batched (whether the first dimension of the configuration's tensors is the batch; null: as the graph says). The last
line of the standard error is the error for the user if the exit status is 3.
"""

import importlib
import json
import sys

from common import Stop, convert

LOADERS = {"sklearn": "tables", "xgboost": "tables", "lightgbm": "tables", "catboost": "tables", "onnx": "changes",
           "pytorch": "torches", "tensorflow": "tensorflows", "paddle": "paddles", "caffe2": "caffes"}


def main(order):
    kind = order["kind"]
    convert(order, getattr(importlib.import_module(LOADERS[kind]), "load_" + kind)(order))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Stop as e:
        print(str(e).replace("\n", " "), file=sys.stderr)
        sys.exit(3)
