"""Whatever becomes of a request, its memory is given back: else a server would refuse all requests after a while."""

import contextlib
import gzip
import itertools
import json
import socket
import struct

import numpy as np
import pytest
import tritonclient.grpc as tg

import http2
from harness import REFERENCE, Server, binary_body, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="docs/deviations.csv has Triton's answers")

MIB = 1 << 20
LIMIT = 16 * MIB
SIZE = 1 * MIB  # bytes of a request
TIMES = 2 * LIMIT // SIZE

IO = """max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ -1 ] } ]
"""
MODELS = {
    "bytes": 'backend: "identity"\n' + IO,
    "cached": 'backend: "identity"\nresponse_cache { enable: true }\n' + IO,
    "slow": 'backend: "identity"\nparameters { key: "execute_delay_ms" value { string_value: "30" } }\n' + IO,
    "full": 'backend: "identity"\nparameters { key: "execute_delay_ms" value { string_value: "30" } }\n'
            "dynamic_batching { default_queue_policy { max_queue_size: 1 timeout_action: REJECT "
            "default_timeout_microseconds: 1000 } }\n" + IO.replace("max_batch_size: 0", "max_batch_size: 1"),
    "steps": """platform: "ensemble"
ensemble_scheduling { step [
  { model_name: "bytes" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" }
    output_map { key: "OUTPUT0" value: "x" } },
  { model_name: "bytes" model_version: -1 input_map { key: "INPUT0" value: "x" }
    output_map { key: "OUTPUT0" value: "OUTPUT0" } } ] }
""" + IO,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("memory")
    for name, config in MODELS.items():
        (work / "models" / name / "1").mkdir(parents=True)
        (work / "models" / name / "config.pbtxt").write_text(config)
    with Server(work / "models", work, f"--request-memory-limit={LIMIT}", "--cache-config=local,size=67108864") as s:
        yield s
        s.stop()


def body(size=SIZE, **more):
    tensor = next(fillings) * size
    t = {"name": "INPUT0", "shape": [size], "datatype": "UINT8", "parameters": {"binary_data_size": size}} | more
    return binary_body({"inputs": [t], "parameters": {"binary_data_output": True}}, tensor)


fillings = itertools.cycle(bytes([i]) for i in range(200))


def post(s, path="/v2/models/bytes/infer", change=lambda b, h: (b, h), **more):
    content, headers = change(*body(**more))
    return s.request("POST", path, content, headers)


def as_json(values):
    return json.dumps({"inputs": [{"name": "INPUT0", "shape": [len(values)], "datatype": "UINT8",
                                   "data": values}]}).encode()


def leave(s, after, path="/v2/models/slow/infer"):
    """Sends this much of a request, and goes."""
    content, headers = body()
    host, port = s.http.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as c:
        head = f"POST {path} HTTP/1.1\r\nHost: {s.http}\r\nContent-Length: {len(content)}\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        c.sendall((head.encode() + content)[:after])
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def grpc(s, model="bytes", shape=None, **more):
    with tg.InferenceServerClient(s.grpc) as c:
        i = tg.InferInput("INPUT0", [SIZE], "UINT8")
        i.set_data_from_numpy(np.zeros(SIZE, np.uint8))
        if shape:
            i.set_shape(shape)
        with contextlib.suppress(tg.InferenceServerException):
            c.infer(model, [i], **more)


def grpc_leave(s, compressed=False, content=b"\x0a\x05bytes" + bytes(SIZE), wait=False):
    with http2.Connection(s.grpc) as c, contextlib.suppress(OSError):
        stream = c.open(http2.INFER, **({"grpc_encoding": "gzip"} if compressed else {}))
        c.message(stream, content, compressed=compressed, end=wait)
        if wait:
            c.result(stream)


def stream(s, model="slow"):
    """Leaves a stream with requests under way."""
    with tg.InferenceServerClient(s.grpc) as c, contextlib.suppress(tg.InferenceServerException):
        c.start_stream(lambda **_: None)
        for _ in range(4):
            i = tg.InferInput("INPUT0", [SIZE], "UINT8")
            i.set_data_from_numpy(np.zeros(SIZE, np.uint8))
            c.async_stream_infer(model, [i])
        c.stop_stream(cancel_requests=True)


def zipped(content, headers):
    return gzip.compress(content, 1), headers | {"Content-Encoding": "gzip"}


WAYS = {
    "served": post,
    "an ensemble": lambda s: post(s, "/v2/models/steps/infer"),
    "a cached response": lambda s: post(s, "/v2/models/cached/infer"),
    "an unknown model": lambda s: post(s, "/v2/models/none/infer"),
    "an unknown path": lambda s: post(s, "/v2/nothing"),
    "a wrong shape": lambda s: post(s, shape=[5]),
    "a wrong name": lambda s: post(s, name="INPUT7"),
    "a wrong type": lambda s: post(s, datatype="FP64"),
    "a wrong length of the header": lambda s: post(s, change=lambda b, h: (b, h | {
        "Inference-Header-Content-Length": "7"})),
    "compressed": lambda s: post(s, change=zipped),
    "damaged compression": lambda s: post(s, change=lambda b, h: (zipped(b, h)[0][:-5], zipped(b, h)[1])),
    "no compression": lambda s: post(s, change=lambda b, h: (b, h | {"Content-Encoding": "gzip"})),
    "a compressed reply": lambda s: post(s, change=lambda b, h: (b, h | {"Accept-Encoding": "gzip"})),
    "JSON": lambda s: s.request("POST", "/v2/models/bytes/infer", as_json([1] * (SIZE // 4))),
    "JSON with a wrong value": lambda s: s.request(
        "POST", "/v2/models/bytes/infer", as_json([1] * (SIZE // 4) + ["x"])),
    "JSON that ends early": lambda s: s.request("POST", "/v2/models/bytes/infer", as_json([1] * (SIZE // 4))[:-9]),
    "a queue that is full": lambda s: [leave(s, 1 << 30, "/v2/models/full/infer") for _ in range(4)],
    "a large setting": lambda s: s.request("POST", "/v2/logging", b'{"x":"' + bytes(SIZE) + b'"}'),
    "too large": lambda s: post(s, size=LIMIT + MIB),
    "a client that leaves within the body": lambda s: leave(s, SIZE // 2),
    "a client that leaves": lambda s: leave(s, 1 << 30),
    "a client that leaves an ensemble": lambda s: leave(s, 1 << 30, "/v2/models/steps/infer"),
    "gRPC": grpc,
    "gRPC, an ensemble": lambda s: grpc(s, "steps"),
    "gRPC, compressed": lambda s: grpc(s, compression_algorithm="gzip"),
    "gRPC, an unknown model": lambda s: grpc(s, "none"),
    "gRPC, a wrong shape": lambda s: grpc(s, shape=[4]),
    "gRPC, a deadline": lambda s: grpc(s, "slow", client_timeout=0.01),
    "gRPC, a client that leaves within a message": grpc_leave,
    "gRPC, no message": lambda s: grpc_leave(s, content=bytes([255]) * SIZE, wait=True),
    "gRPC, damaged compression": lambda s: grpc_leave(s, True, bytes(SIZE), wait=True),
    "gRPC, a stream that is left": stream,
}


@pytest.mark.parametrize("way", WAYS)
def test_A25_memory_is_given_back(server, way):
    for _ in range(TIMES):
        WAYS[way](server)

    last = []

    def free():  # room for a body of 8 MiB, while it grows, and for its reply
        last[:] = [post(server, size=4 * MIB)]
        return last[0].status == 200
    until(free, 30, "the memory is still in use", lambda: f"{last[0].body[:300]}")
