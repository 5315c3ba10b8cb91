"""Writes the weights of digits_py. The code of the Python samples is written by hand in models-sample."""

import io
import pathlib
import shutil
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper


def make(root: pathlib.Path):
    weights(root / "mlp" / "1" / "model.onnx", root / "digits_py" / "1" / "weights.npz")
    shutil.copyfile(root / "digits" / "labels.txt", root / "digits_py" / "labels.txt")


def weights(model: pathlib.Path, target: pathlib.Path):
    """The layers of the network mlp as half floats: w0, b0, w1, ... in their order."""
    graph = onnx.load(str(model)).graph
    held = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    layers = {}
    for i, node in enumerate(n for n in graph.node if n.op_type == "Gemm"):
        layers[f"w{i}"] = held[node.input[1]].astype(np.float16)
        layers[f"b{i}"] = held[node.input[2]].astype(np.float16)
    # np.savez would write the time into the file, but equal weights must give equal files.
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in layers.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array)
            archive.writestr(zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0)), buffer.getvalue(),
                             zipfile.ZIP_DEFLATED)
