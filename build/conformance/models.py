"""Writes the model repository of the suite.

For the server under test, the models use ONNX or a builtin backend. For the reference, they are Python models that
compute the same, because the reference from the PyPI wheel has no other backend.
"""

import pathlib

import onnx
from onnx import TensorProto, helper

from harness import REFERENCE

ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}

PYTHON_HEAD = "import numpy as np\nimport triton_python_backend_utils as pb\n\n\nclass TritonPythonModel:\n"


def config_type(datatype):
    return "TYPE_STRING" if datatype == "BYTES" else "TYPE_" + datatype


def dims_text(dims):
    return "[ " + ", ".join(str(d) for d in dims) + " ]"


def tensors(kind, specs, extra=""):
    items = ", ".join(
        f'{{ name: "{n}" data_type: {config_type(t)} dims: {dims_text(d)}{extra} }}' for n, t, d in specs
    )
    return f"{kind} [ {items} ]\n"


def onnx_graph(path, nodes, inputs, outputs, initializers=(), batched=True):
    """Saves an ONNX model. inputs and outputs are (name, datatype, dims) without the batch dimension."""

    def value(spec):
        name, datatype, dims = spec
        shape = (["batch"] if batched else []) + [f"{name}_{i}" if d == -1 else d for i, d in enumerate(dims)]
        return helper.make_tensor_value_info(name, ONNX_TYPES[datatype], shape)

    graph = helper.make_graph(nodes, "graph", [value(i) for i in inputs], [value(o) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], producer_name="nereid-conformance")
    model.ir_version = 8
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def add_model(repo, name, config, inputs, outputs, nodes, python, versions=(1,), batched=True, initializers=None):
    """Writes one model. config is the text without backend, inputs and outputs. nodes may be a function of the
    version."""
    head = f'backend: "{"python" if REFERENCE else "onnxruntime"}"\n'
    write(repo / name / "config.pbtxt", head + tensors("input", inputs) + tensors("output", outputs) + config)
    for v in versions:
        folder = repo / name / str(v)
        if REFERENCE:
            write(folder / "model.py", PYTHON_HEAD + python.replace("VERSION", str(v)))
        else:
            onnx_graph(folder / "model.onnx", nodes, inputs, outputs, (initializers or (lambda _: ()))(v), batched)
    return repo / name


def identity_python(*pairs):
    outs = ", ".join(
        f'pb.Tensor("{o}", pb.get_input_tensor_by_name(r, "{i}").as_numpy())' for i, o in pairs
    )
    return f"    def execute(self, requests):\n        return [pb.InferenceResponse([{outs}]) for r in requests]\n"


def write_identity(repo, name, config="max_batch_size: 8\n", dims=(16,), datatype="FP32", versions=(1,), batched=True):
    i, o = [("INPUT0", datatype, list(dims))], [("OUTPUT0", datatype, list(dims))]
    nodes = [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])]
    return add_model(repo, name, config, i, o, nodes, identity_python(("INPUT0", "OUTPUT0")), versions, batched)


def write_sums(repo, name="sums", config="max_batch_size: 8\n"):
    """INT32 [16]: OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1."""
    two = [("INPUT0", "INT32", [16]), ("INPUT1", "INT32", [16])]
    out = [("OUTPUT0", "INT32", [16]), ("OUTPUT1", "INT32", [16])]
    nodes = [
        helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
        helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
    ]
    return add_model(repo, name, config, two, out, nodes, SUM_PYTHON)


def write_plus_version(repo, name="plus_version", config="", versions=(1,)):
    """FP32 [16]: OUTPUT0 = INPUT0 + the version's number, so an answer shows which version computed it."""
    i, o = [("INPUT0", "FP32", [16])], [("OUTPUT0", "FP32", [16])]
    nodes = [helper.make_node("Add", ["INPUT0", "V"], ["OUTPUT0"])]
    python = (
        "    def execute(self, requests):\n"
        '        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0")'
        ".as_numpy() + np.float32(VERSION))]) for r in requests]\n"
    )

    def constant(v):
        return [helper.make_tensor("V", TensorProto.FLOAT, [1], [float(v)])]

    return add_model(repo, name, "max_batch_size: 32\n" + config, i, o, nodes, python, versions, True, constant)


def write_repeat(repo, name="repeat"):
    """The decoupled example: one response for each element of IN."""
    i = [("IN", "INT32", [-1]), ("DELAY", "UINT32", [-1]), ("WAIT", "UINT32", [1])]
    o = [("OUT", "INT32", [1]), ("IDX", "UINT32", [1])]
    backend = "python" if REFERENCE else "repeat"
    config = f'backend: "{backend}"\n' + tensors("input", i) + tensors("output", o)
    write(repo / name / "config.pbtxt", config + "model_transaction_policy { decoupled: true }\n")
    (repo / name / "1").mkdir(parents=True, exist_ok=True)
    if REFERENCE:
        write(
            repo / name / "1/model.py",
            PYTHON_HEAD + "    def execute(self, requests):\n        for r in requests:\n"
            "            s = r.get_response_sender()\n"
            '            for i, v in enumerate(pb.get_input_tensor_by_name(r, "IN").as_numpy()):\n'
            '                s.send(pb.InferenceResponse([pb.Tensor("OUT", np.array([v], np.int32)), '
            'pb.Tensor("IDX", np.array([i], np.uint32))]))\n'
            "            s.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n",
        )


LABELS = "".join(f"label{i}\n" for i in range(16))
TYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]
TYPES += ["BYTES"] if REFERENCE else ["BYTES", "BF16"]  # the reference's Python models cannot hold BF16


def write_good(repo):
    """The models that most tests use."""
    repo = pathlib.Path(repo)
    write_sums(repo)
    write_identity(repo, "plain")
    write_identity(
        repo,
        "batched",
        "max_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }\n",
    )
    write_identity(repo, "versions", "max_batch_size: 8\nversion_policy { latest { num_versions: 2 } }\n",
                   versions=(1, 2, 5))
    labelled = write_identity(repo, "labelled")
    text = (labelled / "config.pbtxt").read_text()
    write(labelled / "config.pbtxt",
          text.replace("dims: [ 16 ] } ]\nmax", 'dims: [ 16 ] label_filename: "labels.txt" } ]\nmax'))
    write(labelled / "labels.txt", LABELS)
    for t in TYPES:
        write_identity(repo, "id_" + t, "max_batch_size: 0\n", (-1,), t, batched=False)
    write_repeat(repo)
    return repo


def write_broken(repo):
    """Models that fail to load, each for another reason."""
    repo = pathlib.Path(repo)
    io = tensors("input", [("INPUT0", "FP32", [16])]) + tensors("output", [("OUTPUT0", "FP32", [16])])
    backend = f'backend: "{"python" if REFERENCE else "onnxruntime"}"\n'
    write_identity(repo, "bad_field")
    write(repo / "bad_field/config.pbtxt", backend + "no_such_field: 1\n" + io)
    write_identity(repo, "bad_name")
    write(repo / "bad_name/config.pbtxt", 'name: "other"\n' + backend + io)
    write_identity(repo, "bad_backend")
    write(repo / "bad_backend/config.pbtxt", 'backend: "nosuch"\nmax_batch_size: 8\n' + io)
    write_identity(repo, "bad_noversion")
    for f in (repo / "bad_noversion/1").iterdir():
        f.unlink()
    (repo / "bad_noversion/1").rmdir()
    if not REFERENCE:
        write(repo / "bad_nofile/config.pbtxt", backend + "max_batch_size: 8\n" + io)
        (repo / "bad_nofile/1").mkdir()
        write(repo / "bad_onnx/config.pbtxt", backend + "max_batch_size: 8\n" + io)
        write(repo / "bad_onnx/1/model.onnx", "this is no ONNX file")
    (repo / "bad_empty/1").mkdir(parents=True)
    return repo


SUM_PYTHON = (
    "    def execute(self, requests):\n        out = []\n        for r in requests:\n"
    '            a, b = (pb.get_input_tensor_by_name(r, n).as_numpy() for n in ("INPUT0", "INPUT1"))\n'
    '            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", a + b), pb.Tensor("OUTPUT1", a - b)]))\n'
    "        return out\n"
)
# Python models have no BF16 arrays: such a tensor is passed through unchanged.
PASS_PYTHON = (
    "    def execute(self, requests):\n        out = []\n        for r in requests:\n"
    '            x = pb.get_input_tensor_by_name(r, "INPUT0")\n'
    '            out.append(pb.InferenceResponse([pb.Tensor.from_dlpack("OUTPUT0", x.to_dlpack())]))\n'
    "        return out\n"
)
SQUARE_PYTHON = (
    "    def execute(self, requests):\n        for r in requests:\n            s = r.get_response_sender()\n"
    '            n = pb.get_input_tensor_by_name(r, "IN").as_numpy()\n'
    '            for _ in range(int(n[0])):\n                s.send(pb.InferenceResponse([pb.Tensor("OUT", n)]))\n'
    "            s.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n"
)


def write_builtin(repo, name, backend, python, inputs, outputs, config="max_batch_size: 0\n", versions=(1,)):
    """A model of a builtin backend. For the reference, the same model in Python."""
    head = f'backend: "{"python" if REFERENCE else backend}"\n'
    write(repo / name / "config.pbtxt", head + config + tensors("input", inputs) + tensors("output", outputs))
    for v in versions:
        (repo / name / str(v)).mkdir(parents=True, exist_ok=True)
        if REFERENCE:
            write(repo / name / str(v) / "model.py", PYTHON_HEAD + python)
    return repo / name


def write_cases(repo):
    """The models of the table of cases (cases.py): builtin backends, or Python models for the reference."""
    repo = pathlib.Path(repo)
    same = identity_python(("INPUT0", "OUTPUT0"))
    for t in ONNX_TYPES:
        io = [[(n, t, [-1])] for n in ("INPUT0", "OUTPUT0")]
        write_builtin(repo, "identity_" + t, "identity", PASS_PYTHON if t == "BF16" else same, *io)
        if t not in ("BOOL", "BYTES", "BF16"):
            io = [[(f"{kind}{i}", t, [16]) for i in (0, 1)] for kind in ("INPUT", "OUTPUT")]
            write_builtin(repo, "add_sub_" + t, "add_sub", SUM_PYTHON, *io, config="max_batch_size: 8\n")
    write_builtin(repo, "matrix", "identity", same, [("INPUT0", "FP64", [-1, -1])], [("OUTPUT0", "FP64", [-1, -1])])
    row = [("INPUT0", "FP32", [16])], [("OUTPUT0", "FP32", [16])]
    write_builtin(repo, "plain", "identity", same, *row, config="max_batch_size: 8\n")
    batching = "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }\n"
    write_builtin(repo, "batched", "identity", same, *row, config="max_batch_size: 8\n" + batching)
    write_builtin(repo, "versions", "identity", same, *row,
                  config="max_batch_size: 8\nversion_policy { latest { num_versions: 2 } }\n", versions=(1, 2, 5))
    slow = "    def execute(self, requests):\n        import time\n        time.sleep(0.5)\n" + same.split("\n", 1)[1]
    write_builtin(repo, "slow", "identity", slow, *row,
                  config='max_batch_size: 8\nparameters { key: "execute_delay_ms" value { string_value: "500" } }\n')
    labelled = write_builtin(repo, "labelled", "identity", same, *row, config="max_batch_size: 8\n")
    text = (labelled / "config.pbtxt").read_text()
    write(labelled / "config.pbtxt", text.replace("output [ { ", 'output [ { label_filename: "labels.txt" '))
    write(labelled / "labels.txt", LABELS)
    write_repeat(repo)
    decoupled = "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
    write_builtin(repo, "square", "square", SQUARE_PYTHON, [("IN", "INT32", [1])], [("OUT", "INT32", [1])],
                  config=decoupled)
    return repo


def write_simple_sequence(repo, name="simple_sequence", strategy="direct { }"):
    """The model of the clients' sequence examples: INT32 [1], OUTPUT = INPUT + START, so the first answer is one
    more."""
    config = (
        "max_batch_size: 8\nsequence_batching { max_sequence_idle_microseconds: 60000000 " + strategy + "\n"
        '  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }\n'
        '  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } }\n'
    )
    i, o = [("INPUT", "INT32", [1])], [("OUTPUT", "INT32", [1])]
    folder = repo / name
    write(folder / "config.pbtxt", f'backend: "{"python" if REFERENCE else "onnxruntime"}"\n' + tensors("input", i)
          + tensors("output", o) + config)
    if REFERENCE:
        python = (
            "    def execute(self, requests):\n        out = []\n        for r in requests:\n"
            '            a, b = (pb.get_input_tensor_by_name(r, n).as_numpy() for n in ("INPUT", "START"))\n'
            '            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT", a + b)]))\n        return out\n'
        )
        write(folder / "1/model.py", PYTHON_HEAD + python)
        return folder
    nodes = [helper.make_node("Add", ["INPUT", "START"], ["SUM"]),
             helper.make_node("Mul", ["SUM", "READY"], ["OUTPUT"])]
    onnx_graph(folder / "1/model.onnx", nodes, i + [("START", "INT32", [1]), ("READY", "INT32", [1])], o)
    return folder


def write_running_sum(repo, name="running_sum", strategy="direct { }", more=""):
    """Implicit state: OUTPUT (INT32 [1]) is the sum of INPUT since the sequence began."""
    i, o = [("INPUT", "INT32", [1])], [("OUTPUT", "INT32", [1])]
    config = (
        "max_batch_size: 8\nsequence_batching { max_sequence_idle_microseconds: 60000000 " + strategy + "\n"
        '  state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 ' + more + " } }\n"
    )
    folder = repo / name
    write(folder / "config.pbtxt", 'backend: "onnxruntime"\n' + tensors("input", i) + tensors("output", o) + config)
    nodes = [helper.make_node("Add", ["INPUT", "SUM_IN"], ["SUM_OUT"]),
             helper.make_node("Identity", ["SUM_OUT"], ["OUTPUT"])]
    onnx_graph(folder / "1/model.onnx", nodes, i + [("SUM_IN", "INT32", [1])], o + [("SUM_OUT", "INT32", [1])])
    return folder


def write_builtin_sequence(repo, name, backend, config):
    """A model of one of the builtin sequence backends: INPUT and OUTPUT are INT32 [1], with all controls."""
    i, o = [("INPUT", "INT32", [1])], [("OUTPUT", "INT32", [1])]
    text = (
        f'backend: "{backend}"\nmax_batch_size: 8\n' + tensors("input", i) + tensors("output", o)
        + "sequence_batching { max_sequence_idle_microseconds: 60000000 " + config + "\n"
        '  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }\n'
        '  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }\n'
        '  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }\n'
        '  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } }\n'
    )
    write(repo / name / "config.pbtxt", text)
    (repo / name / "1").mkdir(parents=True, exist_ok=True)
    return repo / name
