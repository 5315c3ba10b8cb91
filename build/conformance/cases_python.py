"""Cases of Python models. The files under python/ use the documented API of Triton's Python backend. Both servers run
the same files."""

import itertools
import json
import pathlib
import queue
import re
import shutil
import time

import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

from answers import Call, ask, fault
from cases import TYPES, add, neutral, sample

CODE = pathlib.Path(__file__).with_name("python")
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def tensor(kind, name, datatype, dims="-1"):
    return f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] }}\n'


def row(datatype="FP32", more="", batch=0, out=None):
    """A configuration with INPUT0 and OUTPUT0."""
    return f"max_batch_size: {batch}\n" + tensor("input", "INPUT0",
                                                 datatype) + tensor("output", "OUTPUT0", out or datatype) + more


STREAM = "max_batch_size: 0\n" + tensor("input", "IN", "INT32") + tensor("output", "OUT", "INT32") + DECOUPLED
CONTROLS = (
    'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }\n'
    'control_input { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }\n'
    'control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }\n'
)
MODELS = {
    "py_lab": ("lab",
               "max_batch_size: 0\n" + tensor("input", "WHAT", "STRING", "1") + tensor("output", "OUT", "STRING", "1")
               + 'parameters { key: "p" value { string_value: "of the configuration" } }\n'),
    "py_identity": ("identity", row()),
    "py_late": ("identity", row(more='parameters { key: "mark" value { string_value: "as in the repository" } }\n')),
    "py_moody": ("moody", row()),
    "py_returns": ("returns", row()),
    "py_batch": ("batch", row(batch=4, more="dynamic_batching { max_queue_delay_microseconds: 300000 "
                                            "preferred_batch_size: [ 2 ] }\n")),
    "py_stream": ("stream", STREAM),
    "py_async": ("async_stream", STREAM),
    "py_sequence": ("sequence", "max_batch_size: 1\n" + tensor("input", "INPUT0", "FP32", "1")
                    + tensor("output", "OUTPUT0", "FP32", "5")
                    + "sequence_batching { max_sequence_idle_microseconds: 60000000\n" + CONTROLS + "}\n"),
    "py_iterative": ("iterative", "max_batch_size: 1\n" + tensor("input", "INPUT0", "FP32", "1")
                     + tensor("output", "OUTPUT0", "FP32")
                     + "sequence_batching { iterative_sequence: true max_sequence_idle_microseconds: 60000000 }\n"),
    "py_completes": ("completes", ""),
}
for t in TYPES:
    name = "STRING" if t == "BYTES" else t
    MODELS["py_type_" + t] = ("dlpack" if t == "BF16" else "identity",
                              row(name) + (tensor("output", "OUTPUT1", "STRING", "1") if t == "BF16" else ""))
BROKEN = {how: row(batch=4 if how == "batch" else 0,
                   more=f'parameters {{ key: "how" value {{ string_value: "{how}" }} }}\n')
          for how in ("batch", "dtype", "dims", "property", "missing", "nameless", "policy", "returns", "raises",
                      "initialize", "initialize_value")}


def write(repo):
    """Writes the models that load at the start, and the models that fail to load."""
    for name, (code, config) in {**MODELS, **{"py_breaks_" + how: ("breaks", c) for how, c in BROKEN.items()}}.items():
        folder = pathlib.Path(repo) / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text('backend: "python"\n' + config)
        shutil.copy(CODE / (code + ".py"), folder / "1/model.py")
    return repo


def options():
    """Explicit mode, because some models load others. All valid models are loaded at the start."""
    return ["--model-control-mode=explicit"] + [f"--load-model={m}" for m in MODELS if m != "py_late"]


# --- the lab model: each function of the module ---


def lab(server, what, way="http", **more):
    answer = ask(server, way, Call("py_lab", [("WHAT", "BYTES", np.array([what.encode()], np.object_))], **more))
    # this case crashes the reference's process
    if isinstance(answer, dict) and "is not healthy" in answer.get("error", ""):
        for verb in ("unload", "load"):
            server.post(f"/v2/repository/models/py_lab/{verb}")
    if isinstance(answer, dict) and "outputs" in answer and answer["outputs"]:
        text = answer["outputs"][0]["values"][0]
        try:
            return json.loads(text)
        except ValueError:
            return answer
    return answer


LAB = ["config", "types", "strings", "errors", "made", "bls", "stream", "spawned", "sequence", "ready", "logs",
       "coroutines", "other_type",
       "no_reply", "both_outputs", "raises", "raises_own", "leaves", "no_text"]
CODES = "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED".split()
MEMBERS = {
    "tensors": ["input", "elements", "none", "all", "strided", "scalar", "bytes", "complex", "no name", "a list"],
    "dlpack": ["device", "capsule", "to numpy", "made", "values", "round", "types", "not one", "no name", "bytes"],
    "wrong": ["correlation", "name", "input", "output", "error", "both", "message", "parameters", "parameter names",
              "family", "memory", "json"],
}
LAB += [f"{function}:{member}" for function, members in MEMBERS.items() for member in members]
WRONG_OUTPUT = {
    "other_output": "model instance 'py_lab_0' returned output 'NOPE', which its configuration does not have, and no "
                    "output 'OUT'",
}
for what, text in WRONG_OUTPUT.items():
    add("python_lab", f"python/{what}", lambda s, what=what: lab(s, what), "DV72",
        lambda _, text=text: {"error": text, "code": "500"})
for what in LAB:
    add("python_lab", f"python/{what}", lambda s, what=what: lab(s, what))
add("python_lab", "python/metrics", lambda s: lab(s, "metrics"))


def why(triton):
    """This server gives a longer reason for a failed load."""
    said = triton["unknown"]["TritonModelException"] + ": model 'nope' is in none of the model repositories"
    return {**triton, "unknown": {"TritonModelException": said}}


add("python_lab", "python/loading", lambda s: lab(s, "loading"), "DV28", why)
for what, way in itertools.product(CODES, ["http", "grpc", "grpc-stream"]):
    add("python_lab", f"python/error-{what}/{way}", lambda s, what=what, way=way: lab(s, what, way))
for what, way in itertools.product(["raises", "raises_own", "leaves"], ["grpc", "grpc-stream"]):
    add("python_lab", f"python/{what}/{way}", lambda s, what=what, way=way: lab(s, what, way))
TOLD = {
    "plain": {},
    "id": {"request_id": "the id"},
    "number": {"sequence_id": 7, "sequence_start": True},
    "text": {"sequence_id": "of texts", "sequence_end": True},
    "both-ends": {"sequence_id": 2**40, "sequence_start": True, "sequence_end": True},
    "timeout": {"timeout": 5_000_000},
    "priority": {"priority": 2},
    "parameters": {"parameters": {"text": "x \u65e5", "number": 7, "negative": -3, "flag": True}},
    "outputs": {"outputs": [("OUT", {})]},
}
for (name, more), way in itertools.product(TOLD.items(), ["http", "grpc"]):
    add("python_lab", f"python/told-{name}/{way}", lambda s, m=more, way=way: lab(s, "told", way, **m))


def scrape(server):
    text = server.request("GET", "/metrics", address=server.metrics).body.decode()
    return sorted(line for line in text.splitlines() if "lab_" in line)


add("python_lab", "python/metrics-page", scrape)

# --- types ---

for t, way in itertools.product(TYPES, ["http", "grpc"]):
    x = sample(t)
    add("python_types", f"python/{t}/{way}",
        lambda s, t=t, way=way, x=x: ask(s, way, Call("py_type_" + t, [("INPUT0", t, x)]), {"OUTPUT0": x}))
    if t not in ("BF16",):
        add("python_types", f"python/{t}/{way}-empty", lambda s, t=t, way=way,
            x=x[:0]: ask(s, way, Call("py_type_" + t, [("INPUT0", t, x)])))
large = np.array([bytes([i]) * 5000 for i in range(40)], np.object_)
add("python_types", "python/BYTES/large",
    lambda s, x=large: ask(s, "http", Call("py_type_BYTES", [("INPUT0", "BYTES", x)])))
add("python_types", "python/FP32/large",
    lambda s: ask(s, "grpc", Call("py_type_FP32", [("INPUT0", "FP32", np.arange(300000, dtype=np.float32))])))

# --- what execute returns ---


# 1 and 6 never answer: the reference then hangs. This server reports an error (Go tests).
for n, way in itertools.product((0, 2, 3, 4, 5, 7, 8, 9), ["http", "grpc"]):
    add("python_returns", f"python/returns-{n}/{way}",
        lambda s, n=n, way=way: ask(s, way, Call("py_returns", [("INPUT0", "FP32", np.array([n], np.float32))])))
for n in (-1, 0, 3, 7, 8):
    add("python_returns", f"python/moody-{n}",
        lambda s, n=n: ask(s, "http", Call("py_moody", [("INPUT0", "FP32", np.array([n, 5], np.float32))])))


def two_in_a_batch(server):
    """The batcher joins two requests. The error of the first does not affect the second."""
    done = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        for i, v in enumerate((-1, 4)):
            call = Call("py_batch", [("INPUT0", "FP32", np.array([[v, v]], np.float32))], request_id=str(i))
            c.async_infer(callback=lambda result, error, i=i: done.put((i, error or result)), client_timeout=120,
                          **call.arguments(tg))
        got = dict(done.get(timeout=60) for _ in range(2))
    return [fault(got[0]) if isinstance(got[0], InferenceServerException) else "no error",
            got[1].as_numpy("OUTPUT0").tolist()]


add("python_returns", "python/one-of-a-batch-fails", two_in_a_batch)

# --- streams ---

for n, way, final in itertools.product((0, 1, 3, -1, -2, -5, -6, -7), ["grpc-stream", "grpc-aio-stream"],
                                       [False, True]):
    if way == "grpc-aio-stream" and final:
        continue
    more = {"enable_empty_final_response": final}
    name = f"python/stream{n:+d}/{way}" + ("-final" if final else "")
    add("python_streams", name,
        lambda s, n=n, way=way, m=more: ask(s, way, Call("py_stream", [("IN", "INT32", np.array([n], np.int32))], **m)))
for n in (0, 2):
    add("python_streams", f"python/async{n:+d}",
        lambda s, n=n: ask(s, "grpc-stream", Call("py_async", [("IN", "INT32", np.array([n], np.int32))])))


def cancelled(server):
    """A client disconnects during a stream and the model notices. The model's next stream reports it."""

    def call(n):
        return Call("py_stream", [("IN", "INT32", np.array([n], np.int32))]).arguments(tg)

    got = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        c.start_stream(callback=lambda result, error: got.put(error or result))
        c.async_stream_infer(**call(-3))
        got.get(timeout=60)
        c.stop_stream(cancel_requests=True)
    got = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        c.start_stream(callback=lambda result, error: got.put(error or result))
        c.async_stream_infer(**call(-4))
        c.stop_stream()
    return got.get(timeout=60).as_numpy("OUT").tolist()


add("python_streams", "python/cancelled", cancelled)
for way in ("http", "grpc"):
    add("python_streams", f"python/stream-by-unary/{way}",
        lambda s, way=way: ask(s, way, Call("py_stream", [("IN", "INT32", np.array([1], np.int32))])))

# --- sequences ---


def sequence(server, model, steps, way, shape=(1, 1)):
    out = []
    for value, more in steps:
        out.append(ask(server, way, Call(model, [("INPUT0", "FP32", np.full(shape, value, np.float32))], **more)))
    return out


for way in ("http", "grpc"):
    base = 1000 if way == "http" else 2000
    steps = [(1, {"sequence_id": base, "sequence_start": True}), (2, {"sequence_id": base}),
             (3, {"sequence_id": base, "sequence_end": True})]
    add("python_sequences", f"python/sequence/{way}", lambda s, st=steps, way=way: sequence(s, "py_sequence", st, way))
    add("python_sequences", f"python/no-sequence/{way}", lambda s, way=way: sequence(s, "py_sequence", [(1, {})], way))
    for n in (1, 2, 5):
        add("python_sequences", f"python/iterative-{n}/{way}",
            lambda s, n=n, way=way: sequence(s, "py_iterative", [(n, {})], way))

# --- auto-completion and loading ---


def configuration(server, model):
    return neutral(server.get(f"/v2/models/{model}/config").json)


add("python_loading", "python/completed", lambda s: configuration(s, "py_completes"))
add("python_loading", "python/completed-metadata", lambda s: neutral(s.get("/v2/models/py_completes").json))
add("python_loading", "python/completed-answers",
    lambda s: ask(s, "http", Call("py_completes", [("INPUT0", "FP32", np.ones([2, 3], np.float32))])))


def load(server, model):
    """The reason in the answer to a load request, without paths and traceback lines."""
    with th.InferenceServerClient(server.http) as c:
        try:
            c.load_model(model)
            return neutral(server.get(f"/v2/models/{model}/config").json)
        except InferenceServerException as e:
            f = fault(e)
            f["error"] = re.sub(r"\n+At:\n.*", "", f["error"], flags=re.S)
            return f


for how in BROKEN:
    add("python_loading", f"python/breaks-{how}", lambda s, how=how: load(s, "py_breaks_" + how))
