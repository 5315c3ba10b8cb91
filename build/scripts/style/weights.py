"""Takes the constants out of an ONNX file, by name: weights.py FILE.onnx WEIGHTS.npz"""

import sys

import numpy as np
import onnx
from onnx import numpy_helper

np.savez(sys.argv[2], **{w.name: numpy_helper.to_array(w) for w in onnx.load(sys.argv[1]).graph.initializer})
