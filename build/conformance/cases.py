"""The table of conformance cases: endpoint × type × mode.

Each case has an id and a function that asks a server and returns its answer as plain JSON (answers.py). The answer of a
real Triton is in reference.json under this id. If this server differs on purpose, the case names its row of
docs/deviations.csv. Its function ours then computes the expected answer from Triton's answer.
"""

import asyncio
import dataclasses
import itertools
import pathlib
import queue
import re
from typing import Any, Callable

import grpc
import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as ga
import tritonclient.http as th
import tritonclient.http.aio as ha
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

from answers import Call, ask, fault, numpy_type, result

RECORD = pathlib.Path(__file__).with_name("reference.json")
NUMERIC = ["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]
TYPES = ["BOOL", *NUMERIC, "BYTES", "BF16"]
NO_JSON = ("FP16", "BF16")
GRPC_WAYS = ["grpc", "grpc-async", "grpc-aio", "grpc-stream", "grpc-aio-stream"]
HTTP_WAYS = ["http", "http-async", "http-body", "http-aio"]


@dataclasses.dataclass(frozen=True)
class Case:
    id: str
    run: Callable[[Any], Any]
    deviation: str = ""
    ours: Callable[[Any], Any] | None = None


GROUPS: dict[str, list[Case]] = {}


def add(group, id, run, deviation="", ours=None):
    assert bool(deviation) == bool(ours), id
    GROUPS.setdefault(group, []).append(Case(id, run, deviation, ours))


def status(code):
    """Returns the same answer with another HTTP status."""
    return lambda triton: {**triton, "status": code}


def error(code, text, content_type="application/json"):
    """Returns another HTTP error."""
    return lambda _: {"status": code, "type": content_type, "json": {"error": text}}


BACKEND = {"platform", "backend", "runtime", "default_model_filename", "instance_group", "parameters",
           "dynamic_batching"}


def neutral(value):
    """Removes times, counts and everything in which the backends of the two servers differ."""
    if isinstance(value, dict):
        return {k: neutral(v) for k, v in value.items() if k not in BACKEND and k not in ("ns", "last_inference")}
    return [neutral(v) for v in value] if isinstance(value, list) else value


# --- values ---


def sample(datatype):
    """Values of the type, including its smallest and its largest value."""
    if datatype == "BYTES":
        return np.array([b"", b"a", b"nul\x00inside", b"\xff\xfe", "日本".encode(), bytes(300)], dtype=np.object_)
    if datatype == "BOOL":
        return np.array([True, False, False, True])
    dtype = numpy_type(datatype)
    if datatype == "BF16":
        return np.array([0.0, -0.0, 1.0, -2.5, 3.3895314e38, np.inf, -np.inf, np.nan], dtype=dtype)
    if dtype.kind == "f":
        i = np.finfo(dtype)
        return np.array([0, -0.0, 1.5, i.max, i.min, i.tiny, i.smallest_subnormal, np.inf, -np.inf, np.nan],
                        dtype=dtype)
    i = np.iinfo(dtype)
    return np.array([i.min, i.max, 0, 1, i.max // 3, i.max // 7], dtype=dtype)


def json_sample(datatype):
    """Values that the clients can encode as JSON."""
    if datatype == "BYTES":
        return np.array(["", "a", 'quote " and \\', "日本", "tab\t"], dtype=np.object_)
    x = sample(datatype)
    return x[np.isfinite(x)] if x.dtype.kind == "f" else x


def identity(server, way, datatype, x, **more):
    outputs = more.pop("outputs", None)
    return ask(server, way, Call("identity_" + datatype, [("INPUT0", datatype, x)], outputs, **more), {"OUTPUT0": x})


# --- infer: each type through each interface in each mode ---

for t, way in itertools.product(TYPES, HTTP_WAYS + GRPC_WAYS):
    add("types", f"{way}/{t}/binary", lambda s, t=t, way=way: identity(s, way, t, sample(t)))

MODES = {"json-in": (False, True), "json-out": (True, False), "json": (False, False)}
for t, (mode, (b_in, b_out)) in itertools.product([t for t in TYPES if t not in NO_JSON], MODES.items()):
    for way in ("http", "http-aio"):
        add(
            "types_json",
            f"{way}/{t}/{mode}",
            lambda s, t=t, way=way, b_in=b_in, b_out=b_out: identity(
                s, way, t, json_sample(t), binary=b_in, outputs=[("OUTPUT0", {"binary_data": b_out})]
            ),
        )

TYPED = {
    "BOOL": ("bool_contents", [True, False, True]),
    "UINT8": ("uint_contents", [0, 7, 255]),
    "UINT16": ("uint_contents", [0, 7, 65535]),
    "UINT32": ("uint_contents", [0, 7, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 7, 2**64 - 1]),
    "INT8": ("int_contents", [-128, 0, 127]),
    "INT16": ("int_contents", [-(2**15), 0, 2**15 - 1]),
    "INT32": ("int_contents", [-(2**31), 0, 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 0, 2**63 - 1]),
    "FP32": ("fp32_contents", [0.5, -1.25, 3e38]),
    "FP64": ("fp64_contents", [0.1, -1e300, 5e-324]),
    "BYTES": ("bytes_contents", [b"a", b"b\x00c", b""]),
}


def rpc(server, method, request, timeout=60, **more):
    """The answer of one unary call by the raw stub: the message as JSON, or the status."""
    with grpc.insecure_channel(server.grpc) as channel:
        try:
            m = getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(request, timeout=timeout, **more)
        except grpc.RpcError as e:
            return {"code": e.code().name, "text": re.sub(r"/[^ ';]*/models/", "<repository>/", e.details())}
        return json_format.MessageToDict(m, preserving_proto_field_name=True)


def grpc_tensor(name="INPUT0", datatype="INT32", shape=(1, 16), **contents):
    t = pb.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=list(shape))
    for field, values in contents.items():
        getattr(t.contents, field).extend(values)
    return t


for t, (field, values) in TYPED.items():
    request = pb.ModelInferRequest(model_name="identity_" + t,
                                   inputs=[grpc_tensor("INPUT0", t, [3], **{field: values})])
    add("typed_contents", f"grpc-stub/{t}/typed", lambda s, r=request: rpc(s, "ModelInfer", r))

# --- shapes: zero-size, one element, several dimensions, batches ---

for t, way in itertools.product(["INT32", "FP16", "BYTES", "BOOL"],
                                ["http", "http-aio", "grpc", "grpc-aio", "grpc-stream"]):
    empty = np.zeros([0], dtype=numpy_type(t))
    add("zero_size", f"{way}/{t}/zero-size", lambda s, t=t, way=way, x=empty: identity(s, way, t, x))
for way in ("http", "grpc"):
    add("zero_size", f"{way}/INT64/zero-size-json" if way == "http" else "grpc/INT64/zero-size",
        lambda s, way=way: identity(s, way, "INT64", np.zeros([0], np.int64), binary=False))
    for shape in ([1], [257], [4096]):
        x = np.arange(shape[0], dtype=np.float32)
        add("shapes", f"{way}/FP32/elements-{shape[0]}", lambda s, way=way, x=x: identity(s, way, "FP32", x))
    for shape in ([2, 3], [0, 3], [3, 0], [1, 1]):
        x = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)
        call = Call("matrix", [("INPUT0", "FP64", x)])
        add("shapes", f"{way}/FP64/matrix-{shape[0]}x{shape[1]}",
            lambda s, way=way, c=call, x=x: ask(s, way, c, {"OUTPUT0": x}))
    call = Call("matrix", [("INPUT0", "FP64", np.arange(6.0).reshape(2, 3))], [("OUTPUT0", {"binary_data": False})],
                binary=False)
    if way == "http":
        add("shapes", "http/FP64/matrix-json",
            lambda s, c=call: ask(s, "http", c, {"OUTPUT0": np.arange(6.0).reshape(2, 3)}))


def sums(datatype="INT32", rows=1):
    a = (np.arange(16 * rows) % 100).astype(numpy_type(datatype)).reshape(rows, 16)
    b = np.ones_like(a)
    return [("INPUT0", datatype, a), ("INPUT1", datatype, b)], {"OUTPUT0": a + b, "OUTPUT1": a - b}


for t, way in itertools.product(NUMERIC, ["http", "grpc"]):
    inputs, want = sums(t)
    add("arithmetic", f"{way}/{t}/add-sub",
        lambda s, t=t, way=way, i=inputs, w=want: ask(s, way, Call("add_sub_" + t, i), w))
for rows, way in itertools.product([1, 2, 8], HTTP_WAYS + GRPC_WAYS):
    inputs, want = sums(rows=rows)
    add("batches", f"{way}/INT32/batch-{rows}",
        lambda s, way=way, i=inputs, w=want: ask(s, way, Call("add_sub_INT32", i), w))
for way in HTTP_WAYS + GRPC_WAYS:
    inputs, _ = sums(rows=9)
    add("batches", f"{way}/INT32/batch-too-large", lambda s, way=way, i=inputs: ask(s, way, Call("add_sub_INT32", i)))

# --- outputs, classification, ids, parameters, versions ---

ONE = {"OUTPUT1": sums()[1]["OUTPUT1"]}
PICKS = {
    "one-output": [("OUTPUT1", {})],
    "reversed-outputs": [("OUTPUT1", {}), ("OUTPUT0", {})],
    "one-json-one-binary": [("OUTPUT0", {"binary_data": False}), ("OUTPUT1", {"binary_data": True})],
    "unknown-output": [("NOPE", {})],
    "output-twice": [("OUTPUT0", {}), ("OUTPUT0", {})],
}
for (name, outputs), way in itertools.product(PICKS.items(), ["http", "http-aio", "grpc", "grpc-stream"]):
    if name == "one-json-one-binary" and way.startswith("grpc"):
        continue
    add("outputs", f"{way}/INT32/{name}",
        lambda s, way=way, o=outputs: ask(s, way, Call("add_sub_INT32", sums()[0], o)))

for t, way in itertools.product(NUMERIC, ["http", "grpc"]):
    if t == "FP16":
        x = np.array([0, 3, 1, 2], numpy_type(t))
    else:
        x = np.array([3, 1, 100, 7, 9], numpy_type(t))
    call = Call("identity_" + t, [("INPUT0", t, x)], [("OUTPUT0", {"class_count": 3, "binary_data": True})])
    add("classification", f"{way}/{t}/classification", lambda s, way=way, c=call: ask(s, way, c))
LABELLED = np.vstack([np.arange(16), -np.arange(16)]).astype(np.float32)
for n, way in itertools.product([1, 2, 16, 99], HTTP_WAYS + GRPC_WAYS):
    call = Call("labelled", [("INPUT0", "FP32", LABELLED)], [("OUTPUT0", {"class_count": n, "binary_data": False})])
    add("classification", f"{way}/FP32/labels-{n}", lambda s, way=way, c=call: ask(s, way, c))
for way in ("http", "grpc"):
    ties = np.array([[1, 5, 5, 5, 1, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0, 0]], np.float32)
    call = Call("labelled", [("INPUT0", "FP32", ties)], [("OUTPUT0", {"class_count": 5, "binary_data": True})])
    add("classification", f"{way}/FP32/ties", lambda s, way=way, c=call: ask(s, way, c))

REQUESTS = {
    "id": {"request_id": "r-1"},
    "id-unicode": {"request_id": "ü 日本"},
    "priority": {"priority": 3},
    "timeout": {"timeout": 5_000_000},
    "version": {"model_version": "1"},
    "unknown-version": {"model_version": "9"},
    "parameters": {"parameters": {"text": "x", "number": 7, "flag": True}},
    "negative-parameter": {"parameters": {"number": -(2**40)}},
    "sequence-number": {"sequence_id": 42, "sequence_start": True, "sequence_end": True},
    "sequence-text": {"sequence_id": "my-sequence", "sequence_start": True},
}
for (name, more), way in itertools.product(REQUESTS.items(), HTTP_WAYS + GRPC_WAYS):
    if way == "http-body" and name in ("version", "unknown-version"):
        continue  # the version is part of the path, which these methods do not build
    add("requests", f"{way}/INT32/{name}",
        lambda s, way=way, m=more: ask(s, way, Call("add_sub_INT32", sums()[0], **m)))
for way in HTTP_WAYS + GRPC_WAYS:
    add("requests", f"{way}/unknown-model", lambda s, way=way: ask(s, way, Call("nope", sums()[0])))
    add("requests", f"{way}/missing-input", lambda s, way=way: ask(s, way, Call("add_sub_INT32", sums()[0][:1])))
    add("requests", f"{way}/wrong-type", lambda s, way=way: ask(s, way, Call("identity_FP32", sums()[0][:1])))

# --- compression ---

for q, a, way in itertools.product([None, "gzip", "deflate"], [None, "gzip", "deflate"], ["http", "http-aio"]):
    more = {"request_compression_algorithm": q, "response_compression_algorithm": a}
    inputs, want = sums(rows=8)
    add("compression", f"{way}/INT32/{q}-in-{a}-out",
        lambda s, way=way, m=more, i=inputs, w=want: ask(s, way, Call("add_sub_INT32", i, **m), w))
for way, algorithm in itertools.product(["grpc", "grpc-async", "grpc-aio"], ["gzip", "deflate"]):
    inputs, want = sums(rows=8)
    more = {"compression_algorithm": algorithm}
    add("compression", f"{way}/INT32/{algorithm}",
        lambda s, way=way, m=more, i=inputs, w=want: ask(s, way, Call("add_sub_INT32", i, **m), w))

# --- decoupled models over streams ---


def repeat(n):
    return [
        ("IN", "INT32", np.arange(n, dtype=np.int32) * 10),
        ("DELAY", "UINT32", np.zeros(n, np.uint32)),
        ("WAIT", "UINT32", np.zeros(1, np.uint32)),
    ]


for n, final, way in itertools.product([0, 1, 4], [False, True], ["grpc-stream", "grpc-aio-stream"]):
    more = {"enable_empty_final_response": final, "request_id": "d"}
    name = f"{n}-responses" + ("-empty-final" if final else "")
    add("decoupled", f"{way}/repeat/{name}",
        lambda s, way=way, n=n, m=more: ask(s, way, Call("repeat", repeat(n), **m)))
    square = [("IN", "INT32", np.array([n], np.int32))]
    add("decoupled", f"{way}/square/{name}", lambda s, way=way, i=square, m=more: ask(s, way, Call("square", i, **m)))
for way in ("grpc-stream", "grpc-aio-stream"):
    more = {"enable_empty_final_response": True}
    add("decoupled", f"{way}/plain-empty-final",
        lambda s, way=way, m=more: ask(s, way, Call("add_sub_INT32", sums()[0], **m)))
for way in ("http", "http-aio", "grpc", "grpc-async", "grpc-aio"):
    add("decoupled", f"{way}/repeat/unary", lambda s, way=way: ask(s, way, Call("repeat", repeat(1))))

# --- features of the clients: plugins, deadlines, cancellation, several requests on a stream ---


def with_plugin(server, module):
    from tritonclient.grpc.auth import BasicAuth as GrpcAuth
    from tritonclient.http.auth import BasicAuth as HttpAuth

    with module.InferenceServerClient(server.http if module is th else server.grpc) as c:
        c.register_plugin((HttpAuth if module is th else GrpcAuth)("user", "password"))
        call = Call("add_sub_INT32", sums()[0], request_id="p")
        return result(c.infer(**call.arguments(module), headers={"X-Mine": "1"} if module is th else {"x-mine": "1"}))


add("clients", "http/plugin", lambda s: with_plugin(s, th))
add("clients", "grpc/plugin", lambda s: with_plugin(s, tg))
SLOW = Call("slow", [("INPUT0", "FP32", np.zeros([1, 16], np.float32))])


def late(server, **how):
    """The client's deadline expires before the model answers. The server continues to serve others."""
    with tg.InferenceServerClient(server.grpc) as c:
        try:
            return result(c.infer(**SLOW.arguments(tg), **how))
        except InferenceServerException as e:
            return fault(e)["code"]


add("clients", "grpc/deadline-missed", lambda s: late(s, client_timeout=0.1))
add("clients", "grpc/deadline-met", lambda s: late(s, client_timeout=120))


def cancelled(server):
    done = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        context = c.async_infer(callback=lambda result, error: done.put(error or result), **SLOW.arguments(tg))
        context.cancel()
        got = done.get(timeout=60)
        return fault(got)["code"] if isinstance(got, InferenceServerException) else result(got)


add("clients", "grpc-async/cancelled", cancelled)


def stream_of(server, calls):
    """The answers to several requests on one stream. Those of one model arrive in the order of the requests."""
    got = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        c.start_stream(callback=lambda result, error: got.put(error or result))
        for call in calls:
            c.async_stream_infer(**call.arguments(tg))
        c.stop_stream()
    answers = [got.get_nowait() for _ in range(got.qsize())]
    answers = [fault(a) if isinstance(a, InferenceServerException) else result(a) for a in answers]
    return sorted(answers, key=lambda a: a.get("id", ""))


BAD = [("INPUT0", "INT32", np.zeros([9, 16], np.int32)), ("INPUT1", "INT32", np.zeros([9, 16], np.int32))]
add("clients", "grpc-stream/three-requests",
    lambda s: stream_of(s, [Call("add_sub_INT32", sums()[0], request_id=str(k)) for k in range(3)]))
add("clients", "grpc-stream/error-then-answer",
    lambda s: stream_of(s, [Call("add_sub_INT32", BAD, request_id="0"),
                            Call("add_sub_INT32", sums()[0], request_id="1")]))
add("clients", "grpc-stream/two-models", lambda s: stream_of(s, [Call("repeat", repeat(2), request_id="0"),
                                                                 Call("add_sub_INT32", sums()[0], request_id="1")]))
add("clients", "grpc-stream/unknown-model-then-answer",
    lambda s: stream_of(s, [Call("nope", sums()[0], request_id="0"), Call("add_sub_INT32", sums()[0], request_id="1")]))

ASKS = {
    "server-live": ("is_server_live", (), {}),
    "server-ready": ("is_server_ready", (), {}),
    "model-ready": ("is_model_ready", ("add_sub_INT32",), {}),
    "version-ready": ("is_model_ready", ("versions", "5"), {}),
    "unknown-ready": ("is_model_ready", ("nope",), {}),
    "metadata": ("get_model_metadata", ("add_sub_INT32",), {"as_json": True}),
    "version-metadata": ("get_model_metadata", ("versions", "2"), {"as_json": True}),
    "config": ("get_model_config", ("labelled",), {"as_json": True}),
    "index": ("get_model_repository_index", (), {"as_json": True}),
    "unknown-metadata": ("get_model_metadata", ("nope",), {"as_json": True}),
    "unknown-statistics": ("get_inference_statistics", ("nope",), {"as_json": True}),
}


def question(server, module, method, args, more):
    address = server.http if module in (th, ha) else server.grpc
    more = {} if module in (th, ha) else more
    try:
        if module in (th, tg):
            with module.InferenceServerClient(address) as c:
                return neutral(getattr(c, method)(*args, **more))

        async def run():
            async with module.InferenceServerClient(address) as c:
                return await getattr(c, method)(*args, **more)

        return neutral(asyncio.run(run()))
    except InferenceServerException as e:
        return fault(e)


MODULES = {"http": th, "http-aio": ha, "grpc": tg, "grpc-aio": ga}
for (name, (method, args, more)), (way, module) in itertools.product(ASKS.items(), MODULES.items()):
    add("clients", f"{way}/ask-{name}", lambda s, m=module, q=method, a=args, k=more: question(s, m, q, a, k))
