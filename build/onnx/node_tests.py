"""Serves ONNX's own node tests without configurations and compares each answer with plain ONNX Runtime.

    make test-onnx              all tests
    make test-onnx ONLY=div     those whose name contains this

A test passes if the server gives ONNX Runtime's answer, or ONNX Runtime cannot run it either, or its tensors have a
type that Triton's protocol lacks and the load error says so. The exit status is 1 if any other is left.
"""

import collections
import json
import pathlib
import shutil
import struct
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from harness import Server  # noqa: E402

# TensorProto.DataType by the protocol's name.
TYPES = {"FP32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BYTES": 8, "BOOL": 9,
         "FP16": 10, "FP64": 11, "UINT32": 12, "UINT64": 13, "BF16": 16}
NAMES = {code: name for name, code in TYPES.items()}
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
          "RandomUniformLike"}


def values_of(folder, model):
    """The first data set's inputs by name, as TensorProto; None if one is no tensor."""
    given = {}
    for i, value in enumerate(model.graph.input):
        path = folder / f"test_data_set_0/input_{i}.pb"
        if not value.type.HasField("tensor_type"):
            return None
        if path.exists():
            given[value.name] = onnx.load_tensor(str(path))
    return given


def outputs_of(folder, model):
    """The first data set's outputs by name, which the authors of the test expect."""
    return {o.name: numpy_helper.to_array(onnx.load_tensor(str(folder / f"test_data_set_0/output_{i}.pb")))
            for i, o in enumerate(model.graph.output)}


def by_onnxruntime(folder, given):
    """ONNX Runtime's answer by name, as (type, array), or the error's first line."""
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])
        feed = {}
        for name, t in given.items():
            a = numpy_helper.to_array(t)
            if t.data_type == TensorProto.BFLOAT16:
                feed[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(a.view(np.uint16), t.data_type)
            else:
                feed[name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(a))
        names = [o.name for o in session.get_outputs()]
        answer = {}
        for name, value in zip(names, session.run_with_ort_values(names, feed)):
            if value.element_type() == TensorProto.BFLOAT16:
                raise NotImplementedError("Python cannot read an output of BF16")
            answer[name] = value.numpy()
        return answer
    except Exception as e:  # its exceptions have no common class
        return str(e).splitlines()[0] if str(e) else repr(e)


def encode(t):
    a = numpy_helper.to_array(t)
    if t.data_type != TensorProto.STRING:
        return a.tobytes()
    data = (e if isinstance(e, bytes) else str(e).encode() for e in a.reshape(-1))
    return b"".join(struct.pack("<I", len(e)) + e for e in data)


def decode(datatype, shape, data):
    if datatype == "BYTES":
        elements, at = [], 0
        while at < len(data):
            n = struct.unpack_from("<I", data, at)[0]
            elements.append(data[at + 4:at + 4 + n].decode())
            at += 4 + n
        return np.array(elements, dtype=object).reshape(shape)
    dtype = helper.tensor_dtype_to_np_dtype(TYPES[datatype])
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def infer(server, name, given):
    """The server's answer by name, or its error."""
    parts = {k: encode(t) for k, t in given.items()}
    head = json.dumps({
        "inputs": [{"name": k, "shape": list(t.dims), "datatype": NAMES[t.data_type],
                    "parameters": {"binary_data_size": len(parts[k])}} for k, t in given.items()],
        "parameters": {"binary_data_output": True},
    }).encode()
    answer = server.request("POST", f"/v2/models/{name}/infer", head + b"".join(parts.values()),
                            {"Inference-Header-Content-Length": str(len(head))})
    if answer.status != 200:
        return answer.error
    at = int(answer.headers["inference-header-content-length"])
    outputs = {}
    for o in json.loads(answer.body[:at])["outputs"]:
        n = o["parameters"]["binary_data_size"]
        outputs[o["name"]] = decode(o["datatype"], o["shape"], answer.body[at:at + n])
        at += n
    return outputs


def same(got, expected, random):
    if isinstance(expected, str) or isinstance(got, str):
        return False
    for name, e in expected.items():
        g = got.get(name)
        if g is None or g.size != e.size or g.shape != (e.shape or (1,)):
            return False
        if random:
            continue
        if e.dtype.kind in "OUS":
            if g.reshape(-1).tolist() != e.reshape(-1).tolist():
                return False
        elif not np.allclose(g.reshape(e.shape).astype(float), e.astype(float), 1e-5, 1e-6, equal_nan=True):
            return False
    return len(got) == len(expected)


def verdict(server, name, folder):
    """One of the kinds of results, and what to show for a wrong one."""
    model = onnx.load(str(folder / "model.onnx"))
    given = values_of(folder, model)
    expected = by_onnxruntime(folder, given) if given is not None else "an input is no tensor"
    load = server.post(f"/v2/repository/models/{name}/load")
    if load.status != 200:
        if isinstance(expected, dict) and "Unsupported ONNX Type" not in load.error:
            if "unsupported datatype" in load.error and "by a Cast" in load.error:
                return "refused: a datatype that the protocol lacks", ""
            return "WRONG: not loaded", load.error
        if "Unsupported ONNX Type" in load.error:
            return "refused: a sequence, a map or an optional", ""
        if "unsupported datatype" in load.error:
            return "refused: a datatype that the protocol lacks", ""
        return "refused, and ONNX Runtime cannot run it either", ""
    if given is None:
        return "WRONG: loaded with an input that is no tensor", ""
    got = infer(server, name, given)
    if isinstance(expected, str):
        if isinstance(got, str):
            return "loaded, and ONNX Runtime cannot run it either", ""
        expected = outputs_of(folder, model)  # its Python cannot read all types
    if same(got, expected, any(n.op_type in RANDOM for n in model.graph.node)):
        return "right", ""
    return "WRONG: another answer", f"{got} in place of {expected}"[:600]


def main(data, only):
    tests = [t for t in sorted(pathlib.Path(data).iterdir()) if only in t.name and (t / "model.onnx").exists()]
    counts, processes = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as work:
        repo = pathlib.Path(work) / "models"
        repo.mkdir()
        with Server(repo, work, "--model-control-mode=explicit") as server:
            for folder in tests:
                shutil.copytree(folder, repo / folder.name / "1", ignore=shutil.ignore_patterns("test_data*"))
                kind, why = verdict(server, folder.name, folder)
                counts[kind] += 1
                if kind.startswith("WRONG"):
                    print(f"{folder.name}: {kind}: {why}", flush=True)
                server.post(f"/v2/repository/models/{folder.name}/unload")
                shutil.rmtree(repo / folder.name)
            processes = server.log().count("runs in a separate process")
            status = server.stop()
    print(f"{len(tests)} tests")
    for kind, n in counts.most_common():
        print(f"{n:6} {kind}")
    print(f"{processes:6} were run in a separate process")
    wrong = sum(n for kind, n in counts.items() if kind.startswith("WRONG"))
    if status != 0:
        print(f"the server exited with {status}")
    return 1 if wrong or status != 0 or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
