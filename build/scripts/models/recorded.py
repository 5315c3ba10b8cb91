"""Recorded requests: reads and writes models-sample/*/requests/*.json, and computes the answers.

models-sample/README.md describes the format. Only this module writes it; check.py uses it to read. A tensor is
(datatype, shape, raw). raw has the bytes of Triton's binary tensor data extension: row-major, little-endian, each BYTES
element after its 4-byte length.
"""

import base64
import ctypes
import json
import math
import pathlib
import struct
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from onnx import TensorProto

# Triton's data type -> (numpy type of one element in memory, ONNX element type).
# BF16 has no numpy type: its elements are handled as their 16 bits.
TYPES = {
    "BOOL": (np.dtype("?"), TensorProto.BOOL),
    "UINT8": (np.dtype("u1"), TensorProto.UINT8),
    "INT32": (np.dtype("<i4"), TensorProto.INT32),
    "INT64": (np.dtype("<i8"), TensorProto.INT64),
    "FP16": (np.dtype("<f2"), TensorProto.FLOAT16),
    "BF16": (np.dtype("<u2"), TensorProto.BFLOAT16),
    "FP32": (np.dtype("<f4"), TensorProto.FLOAT),
    "BYTES": (None, TensorProto.STRING),
}
TEXT_LIMIT = 64  # tensors with more elements are written as base64


@dataclass
class Tensor:
    name: str
    datatype: str
    shape: list[int]
    raw: bytes

    def array(self) -> np.ndarray:
        """The tensor as a numpy array: BF16 as its bits, BYTES as an object array of bytes."""
        if self.datatype == "BYTES":
            a = np.empty(self.shape, dtype=object)
            a.flat = split_bytes(self.raw)
            return a
        return np.frombuffer(self.raw, TYPES[self.datatype][0]).reshape(self.shape)


def tensor(name: str, datatype: str, values) -> Tensor:
    """Makes a Tensor from nested lists or an array. BYTES elements are bytes; BF16 elements are floats."""
    if datatype == "BYTES":
        a = np.array(values, dtype=object)
        return Tensor(name, datatype, list(a.shape), b"".join(struct.pack("<I", len(s)) + s for s in a.flat))
    if datatype == "BF16":
        bits = np.asarray(values, np.float32).view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")  # rounds to nearest, ties to even
        a = np.where(np.isnan(np.asarray(values, np.float32)), np.uint16(0x7FC0), rounded).astype("<u2")
    else:
        a = np.asarray(values, TYPES[datatype][0])
    return Tensor(name, datatype, list(a.shape), a.tobytes())


def split_bytes(raw: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(raw):
        (n,) = struct.unpack_from("<I", raw, at)
        if at + 4 + n > len(raw):
            raise ValueError(f"BYTES tensor: element at byte {at} has length {n}, {len(raw) - at - 4} bytes are left")
        out.append(raw[at + 4 : at + 4 + n])
        at += 4 + n
    return out


def to_json(t: Tensor) -> dict:
    """One tensor as JSON: "data" if text loses nothing, else "b64"."""
    d = {"name": t.name, "datatype": t.datatype, "shape": t.shape}
    if math.prod(t.shape) <= TEXT_LIMIT:
        if t.datatype == "BYTES":
            elems = split_bytes(t.raw)
            if all(e.isascii() and b"\0" not in e for e in elems):
                return d | {"data": [e.decode() for e in elems]}
        elif t.datatype not in ("FP16", "BF16"):
            a = t.array().ravel()
            if t.datatype != "FP32":
                return d | {"data": a.tolist()}
            if np.isfinite(a).all():
                # The shortest decimal that reads back as the same float32.
                return d | {"data": [float(str(v)) for v in a]}
    return d | {"b64": base64.b64encode(t.raw).decode()}


def from_json(d: dict) -> Tensor:
    if "b64" in d:
        return Tensor(d["name"], d["datatype"], d["shape"], base64.b64decode(d["b64"], validate=True))
    vals = [v.encode() for v in d["data"]] if d["datatype"] == "BYTES" else d["data"]
    t = tensor(d["name"], d["datatype"], vals)
    t.shape = d["shape"]
    return t


def write(path: pathlib.Path, inputs: list[Tensor], outputs: list[Tensor], tolerance: float, source: str, **extra):
    """Writes requests/<name>.json, with this name as the request's name. extra: image, label."""
    doc = {"name": path.stem, **extra, "inputs": [to_json(t) for t in inputs],
           "outputs": [to_json(t) for t in outputs], "tolerance": tolerance, "source": source}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(doc, indent=1, ensure_ascii=True)
    # One line per list of numbers keeps the files short and their diffs readable.
    path.write_text(_join_lists(text) + "\n")


def _join_lists(text: str) -> str:
    out, in_list = [], False
    for line in text.split("\n"):
        s = line.strip()
        if in_list:
            out[-1] += s if s.startswith("]") else s + (" " if s.endswith(",") else "")
            if s.startswith("]"):
                in_list = False
        elif s.startswith(('"data": [', '"shape": [')) and not s.endswith(("],", "]")):
            in_list = True
            out.append(line)
        else:
            out.append(line)
    return "\n".join(out)


def session(model: pathlib.Path) -> ort.InferenceSession:
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    o.inter_op_num_threads = 1
    return ort.InferenceSession(str(model), o, providers=["CPUExecutionProvider"])


def run(s: ort.InferenceSession, inputs: list[Tensor]) -> list[Tensor]:
    """Runs the model. BYTES must be UTF-8, because onnxruntime's Python interface only has str."""
    names = [o.name for o in s.get_outputs()]
    if any(t.datatype == "BYTES" for t in inputs):
        feeds = {t.name: _map_strings(t.array(), bytes.decode) for t in inputs}
        outs = s.run(names, feeds)
        return [tensor(n, "BYTES", _map_strings(a, str.encode)) for n, a in zip(names, outs)]
    values = {t.name: _to_value(t) for t in inputs}
    return [_from_value(n, v) for n, v in zip(names, s.run_with_ort_values(names, values))]


def _map_strings(a: np.ndarray, f) -> np.ndarray:
    out = np.empty(a.shape, dtype=object)
    out.flat = [f(e) for e in a.flat]
    return out


def _to_value(t: Tensor) -> ort.OrtValue:
    if t.datatype == "BF16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(t.array().copy(), TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(t.array())


def _from_value(name: str, v: ort.OrtValue) -> Tensor:
    if v.data_type() == "tensor(bfloat16)":  # there is no numpy type: use the bits
        n = math.prod(v.shape())
        raw = ctypes.string_at(v.data_ptr(), 2 * n) if n else b""
        return Tensor(name, "BF16", list(v.shape()), raw)
    a = v.numpy()
    datatype = next(k for k, (np_type, _) in TYPES.items() if np_type == a.dtype and k != "BF16")
    return Tensor(name, datatype, list(a.shape), np.ascontiguousarray(a).tobytes())


def differs(got: Tensor, want: Tensor, tolerance: float) -> str:
    """Returns the difference of got and want as text. Empty: same type and shape, and equal bytes or all within
    tolerance."""
    if (got.datatype, got.shape) != (want.datatype, want.shape):
        return f"{want.name}: {got.datatype} {got.shape}, want {want.datatype} {want.shape}"
    if tolerance == 0:
        return "" if got.raw == want.raw else f"{want.name}: bytes differ"
    worst = float(np.abs(got.array().astype(np.float64) - want.array().astype(np.float64)).max(initial=0))
    return "" if worst <= tolerance else f"{want.name}: differs by {worst:g}, tolerance {tolerance:g}"
