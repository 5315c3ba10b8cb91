"""Makes the sample models that need no training: add_sub, identity in seven types, builtin_identity."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

import recorded
from recorded import tensor

ORT = f"onnxruntime {recorded.ort.__version__}"
OPSET, IR_VERSION = 17, 8  # supported by every ONNX Runtime since 1.12


def save(graph: onnx.GraphProto, folder: pathlib.Path) -> pathlib.Path:
    """Writes folder/1/model.onnx after onnx's own checks and returns its path."""
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                          producer_name="models-sample")
    onnx.checker.check_model(m, full_check=True)
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(m.SerializeToString(deterministic=True))
    return path


def record(folder: pathlib.Path, name: str, inputs: list[recorded.Tensor], tolerance: float = 0.0):
    """Runs the model in folder on inputs and writes requests/<name>.json."""
    out = recorded.run(recorded.session(folder / "1" / "model.onnx"), inputs)
    recorded.write(folder / "requests" / f"{name}.json", inputs, out, tolerance, ORT)


ADD_SUB = """\
# OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1. Default scheduler: each request runs alone.
name: "{name}"
backend: "onnxruntime"
max_batch_size: 8
input [
  {{ name: "INPUT0" data_type: TYPE_{type} dims: [ 16 ] }},
  {{ name: "INPUT1" data_type: TYPE_{type} dims: [ 16 ] }}
]
output [
  {{ name: "OUTPUT0" data_type: TYPE_{type} dims: [ 16 ] }},
  {{ name: "OUTPUT1" data_type: TYPE_{type} dims: [ 16 ] }}
]
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""


def add_sub(root: pathlib.Path, name: str, datatype: str):
    elem = recorded.TYPES[datatype][1]
    io = lambda n: helper.make_tensor_value_info(n, elem, ["batch", 16])
    folder = root / name
    save(helper.make_graph(
        [helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
         helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
        name, [io("INPUT0"), io("INPUT1")], [io("OUTPUT0"), io("OUTPUT1")]), folder)
    (folder / "config.pbtxt").write_text(ADD_SUB.format(name=name, type=datatype))
    a, b = np.arange(16).reshape(1, 16), np.ones((1, 16))
    record(folder, "one_row", [tensor("INPUT0", datatype, a), tensor("INPUT1", datatype, b)])
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1000, 1000, (3, 16)) / (4 if datatype == "FP32" else 1) for _ in range(2))
    record(folder, "three_rows", [tensor("INPUT0", datatype, a), tensor("INPUT1", datatype, b)])


IDENTITY = """\
# OUTPUT0 = INPUT0, bytes unchanged.
name: "{name}"
{backend}
max_batch_size: {batch}
input [ {{ name: "INPUT0" data_type: TYPE_{type} dims: [ {dim} ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_{type} dims: [ {dim} ] }} ]
dynamic_batching {{ }}
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""
ORT_BACKEND = 'backend: "onnxruntime"'
FLOATS = [0.0, -0.0, 1.5, -2.25, 65504.0, 1e-7, float("inf"), float("-inf"), float("nan")]
NOT_UTF8 = [[b"\xff\xfe\x00\x80", b"\x00", b"a\x00b\x00"], [b"", bytes(range(256)), b"\xc3\x28"]]


def identity(root: pathlib.Path, datatype: str, dim: int, batch: int, requests: dict):
    """One identity model; requests: name -> nested values of INPUT0."""
    name = "identity_" + datatype.lower()
    elem = recorded.TYPES[datatype][1]
    folder = root / name
    io = lambda n: helper.make_tensor_value_info(n, elem, ["batch", dim if dim > 0 else "length"])
    save(helper.make_graph([helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
                           name, [io("INPUT0")], [io("OUTPUT0")]), folder)
    config_type = "STRING" if datatype == "BYTES" else datatype
    (folder / "config.pbtxt").write_text(
        IDENTITY.format(name=name, backend=ORT_BACKEND, batch=batch, type=config_type, dim=dim))
    for req, values in requests.items():
        record(folder, req, [tensor("INPUT0", datatype, values)])


def identities(root: pathlib.Path):
    ramp = [[i / 4 for i in range(16)]]
    identity(root, "FP32", 16, 64, {"one_row": ramp, "special_values": [(FLOATS * 2)[:16], (FLOATS * 4)[16:32]]})
    identity(root, "FP16", -1, 8, {"special_values": [FLOATS], "two_rows": [[1, 2, 3], [-4, 5.5, 0.1]]})
    identity(root, "BF16", -1, 8, {"special_values": [FLOATS], "two_rows": [[1, 2, 3], [-4, 5.5, 0.1]]})
    identity(root, "INT64", -1, 8, {"limits": [[0, -1, 2**63 - 1, -(2**63), 2**53 + 1]]})
    identity(root, "UINT8", -1, 8, {"all_values": [list(range(256))], "two_rows": [[0, 255], [1, 128]]})
    identity(root, "BOOL", -1, 8, {"two_rows": [[True, False, True], [False, False, True]]})
    identity(root, "BYTES", -1, 8, {
        "text": [["hello".encode(), b"", b"triton"]],
        "nul_bytes": [[b"a\x00b", b"\x00", b"end\x00"], [b"", b"\x00\x00", "Größe 数字".encode()]],
    })
    # onnxruntime's Python interface only takes str, so this answer comes from the operator's definition.
    recorded.write(root / "identity_bytes" / "requests" / "not_utf8.json",
                   [tensor("INPUT0", "BYTES", NOT_UTF8)], [tensor("OUTPUT0", "BYTES", NOT_UTF8)], 0.0, "definition")


def builtin_identity(root: pathlib.Path):
    """A model of the server's identity backend. It has no file, but the version folder must exist."""
    folder = root / "builtin_identity"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / ".gitkeep").write_bytes(b"")
    (folder / "config.pbtxt").write_text(IDENTITY.format(
        name="builtin_identity", backend='backend: "identity"', batch=64, type="FP32", dim=16))
    rows = [[i / 4 for i in range(16)], [-i / 4 for i in range(16)]]
    recorded.write(folder / "requests" / "two_rows.json",
                   [tensor("INPUT0", "FP32", rows)], [tensor("OUTPUT0", "FP32", rows)], 0.0, "definition")


def make(root: pathlib.Path):
    add_sub(root, "add_sub", "FP32")
    add_sub(root, "add_sub_int32", "INT32")
    identities(root)
    builtin_identity(root)
