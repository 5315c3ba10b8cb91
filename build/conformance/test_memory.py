"""Small messages, and many large ones, must not take more memory than the server has."""

import concurrent.futures
import contextlib
import gzip
import json
import pathlib
import struct

import numpy as np
import pytest
import tritonclient.http as th

import http2
import models
from harness import BINARY, REFERENCE, Server, binary_body, until
from limits import MIB, memory_group

pytestmark = pytest.mark.skipif(REFERENCE, reason="docs/deviations.csv has Triton's answers")

LIMIT = 512 * MIB


@contextlib.contextmanager
def confined(work, limit=LIMIT):
    """A server that has so much memory, and a model that returns its bytes. It must stay alive inside the limit."""
    models.write_identity(work / "models", "bytes", "max_batch_size: 0\n", (-1,), "UINT8", batched=False)
    with memory_group(limit) as group:
        if group:
            command, options = ["sh", "-c", f'echo $$ > {group.procs} && exec {BINARY} serve "$@"', "sh"], []
        else:  # what the server would choose by itself in the group
            command = ["env", f"GOMEMLIMIT={limit * 7 // 10}", BINARY, "serve"]
            options = [f"--request-memory-limit={limit // 4}"]
        with Server(work / "models", work, *options, command=command) as s:
            infer(s, 4)
            yield s
            assert s.process.poll() is None, s.log()[-2000:]
            infer(s, 4)
            peak = memory(s, "VmHWM")
            assert peak < limit, f"{peak} bytes of {limit}"
            s.stop()


def memory(s, field="VmRSS"):
    """Bytes of memory of the server's process."""
    lines = pathlib.Path(f"/proc/{s.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


def infer(s, size):
    x = np.arange(size).astype(np.uint8)
    with th.InferenceServerClient(s.http, network_timeout=120, connection_timeout=120) as c:
        i = th.InferInput("INPUT0", [size], "UINT8")
        i.set_data_from_numpy(x)
        assert np.array_equal(c.infer("bytes", [i]).as_numpy("OUTPUT0"), x)


def bomb(size):
    """A gzip stream of zeros, of many members."""
    return gzip.compress(bytes(32 * MIB)) * (size // (32 * MIB))


def parallel(n, run):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(run, range(n)))


def test_A25_DV76_small_gRPC_messages_of_huge_content(tmp_path):
    content = bomb(1024 * MIB)
    assert len(content) < 1.2 * MIB

    def call(_):
        with http2.Connection(s.grpc) as c:
            stream = c.open(http2.INFER, grpc_encoding="gzip")
            with contextlib.suppress(OSError):
                c.message(stream, content[:900_000], compressed=True)  # in the first window
            return c.result(stream)

    with confined(tmp_path) as s:
        answers = parallel(4, call)
        for a in answers:
            assert a and (b"compressed more than 200 times" in a or b"--request-memory-limit" in a), a


def test_A25_many_large_bodies_at_once(tmp_path):
    tensor = bytes(60 * MIB)
    body, headers = binary_body({
        "inputs": [{"name": "INPUT0", "shape": [len(tensor)], "datatype": "UINT8",
                    "parameters": {"binary_data_size": len(tensor)}}],
        "parameters": {"binary_data_output": True}}, tensor)
    with confined(tmp_path, 1024 * MIB) as s:
        answers = parallel(24, lambda _: s.request("POST", "/v2/models/bytes/infer", body, headers))
        statuses = [a.status for a in answers]
        assert set(statuses) <= {200, 503} and 200 in statuses, statuses
        for a in answers:
            assert a.status == 200 or "--request-memory-limit" in a.error, a.body


def test_A25_strings_of_a_request_are_counted(tmp_path):
    """A client sends an empty string in four bytes. ONNX Runtime needs 32 for it, in the input and in the output."""
    models.write_identity(tmp_path / "models", "strings", "max_batch_size: 0\n", (-1,), "BYTES", batched=False)

    def ask(count):
        tensor = bytes(4 * count)
        body, headers = binary_body({
            "inputs": [{"name": "INPUT0", "shape": [count], "datatype": "BYTES",
                        "parameters": {"binary_data_size": len(tensor)}}],
            "parameters": {"binary_data_output": True}}, tensor)
        return s.request("POST", "/v2/models/strings/infer", body, headers)

    with confined(tmp_path) as s:
        for count in 10_000, 200_000:
            assert ask(count).status == 200
        a = ask(15_000_000)
        assert a.status == 503 and "15000000 strings of input 'INPUT0'" in a.error, a.body
        answers = parallel(8, lambda _: ask(1_000_000))
        assert {a.status for a in answers} <= {200, 503}, [a.body[:200] for a in answers]
        assert any(a.status == 200 for a in answers)
        for a in answers:
            assert a.status == 200 or "--request-memory-limit" in a.error, a.body


def test_A25_replies_as_JSON_are_counted(tmp_path):
    """A BOOL is one byte in a request and six in a reply as JSON."""
    models.write_identity(tmp_path / "models", "bools", "max_batch_size: 0\n", (-1,), "BOOL", batched=False)

    def ask(count):
        body, headers = binary_body({
            "inputs": [{"name": "INPUT0", "shape": [count], "datatype": "BOOL",
                        "parameters": {"binary_data_size": count}}]}, bytes(count))
        return s.request("POST", "/v2/models/bools/infer", body, headers)

    with confined(tmp_path) as s:
        assert len(ask(4 * MIB).json["outputs"][0]["data"]) == 4 * MIB
        answers = parallel(8, lambda _: ask(40 * MIB))
        assert {a.status for a in answers} == {503}, {a.status for a in answers}
        assert all("--request-memory-limit" in a.error for a in answers)
        answers = parallel(16, lambda _: ask(4 * MIB))
        assert {a.status for a in answers} <= {200, 503} and any(a.status == 200 for a in answers)


def test_A25_shapes_of_many_dimensions(tmp_path):
    """A dimension takes one byte in a gRPC message and two in JSON; the server keeps eight."""
    model, name = b"\x0a\x05bytes", b"\x0a\x06INPUT0\x12\x05UINT8"
    dims = 56 * MIB
    tensor = name + b"\x1a" + varint(dims) + b"\1" * dims
    packed = model + b"\x2a" + varint(len(tensor)) + tensor
    text = b'{"inputs":[{"name":"INPUT0","datatype":"UINT8","shape":[' + b"1," * (dims // 2) + b'1],"data":[1]}]}'
    with confined(tmp_path) as s:
        with http2.Connection(s.grpc) as c:
            c.message(stream := c.open(http2.INFER), packed)
            assert b"more than 1024 dimensions in a shape" in c.result(stream)
        for a in parallel(3, lambda _: s.request("POST", "/v2/models/bytes/infer", text)):
            assert a.status == 503 or a.status == 400 and "more than 1024 dimensions in a shape" in a.error, a.body


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def test_A25_many_small_bodies_of_large_content(tmp_path):
    body = gzip.compress(bytes(60 * MIB))
    assert len(body) < 64_000
    with confined(tmp_path) as s:
        answers = parallel(48, lambda _: s.request(
            "POST", "/v2/models/bytes/infer", body, {"Content-Encoding": "gzip"}))
        assert {a.status for a in answers} <= {413, 503}, {a.status for a in answers}
        assert any("compressed more than 200 times" in a.error for a in answers)


def test_A25_large_gRPC_messages_beyond_the_limit(tmp_path):
    """The length of a message is refused before its bytes come, and the connection stays usable."""
    with confined(tmp_path) as s, http2.Connection(s.grpc) as c:
        stream = c.open(http2.INFER)
        c.send(http2.frame(http2.DATA, 0, stream, struct.pack(">BI", 0, 1 << 30) + bytes(1000)))
        assert b"raise --request-memory-limit" in c.result(stream)
        live = c.open(http2.LIVE)
        c.message(live, b"")
        assert c.result(live)


@pytest.mark.parametrize("backend", ["identity", "onnxruntime without its arena"])
def test_A25_memory_of_a_burst_goes_back_to_the_system(tmp_path, backend):
    """With its arena an ONNX model keeps what its largest request took, as docs/backends.md says."""
    if backend == "identity":
        io = [(n, "UINT8", [-1]) for n in ("INPUT0", "OUTPUT0")]
        models.write_builtin(tmp_path / "models", "bytes", "identity", None, io[:1], io[1:])
    else:
        off = 'max_batch_size: 0\nparameters { key: "enable_mem_arena" value { string_value: "0" } }\n'
        models.write_identity(tmp_path / "models", "bytes", off, (-1,), "UINT8", batched=False)
    with Server(tmp_path / "models", tmp_path, "--request-memory-limit=4GiB") as s:
        infer(s, 4)
        before = memory(s)
        parallel(8, lambda _: infer(s, 48 * MIB))
        until(lambda: memory(s) < before + 100 * MIB, 30, f"the server keeps its memory; before: {before}",
              lambda: f"now {memory(s)}")


def test_A25_the_limits_are_options(tmp_path):
    """--request-memory-limit holds for HTTP, gRPC and the GUI, --grpc-max-decompressed-size for compressed messages."""
    io = [(n, "UINT8", [-1]) for n in ("INPUT0", "OUTPUT0")]
    models.write_builtin(tmp_path / "models", "bytes", "identity", None, io[:1], io[1:])
    options = [f"--request-memory-limit={MIB}", "--grpc-max-decompressed-size=1000"]
    with Server(tmp_path / "models", tmp_path, *options) as s:
        infer(s, 100_000)
        a = s.request("POST", "/v2/models/bytes/infer", bytes(2 * MIB))
        assert a.status == 503 and "raise --request-memory-limit" in a.error, a
        text = json.dumps({"text": "x" * 2 * MIB}).encode()
        a = s.request("POST", "/api/config/check", text, {"X-Nereid": "1"}, s.ui_address)
        assert a.status == 503 and "raise --request-memory-limit" in a.error, a
        with http2.Connection(s.grpc) as c:
            stream = c.open(http2.INFER)
            c.send(http2.frame(http2.DATA, 0, stream, struct.pack(">BI", 0, 2 * MIB)))
            assert b"raise --request-memory-limit" in c.result(stream)
            stream = c.open(http2.INFER, grpc_encoding="gzip")
            c.message(stream, gzip.compress(bytes(1001)), compressed=True)
            assert b"after decompression larger than max 1000" in c.result(stream)
            c.message(live := c.open(http2.LIVE), b"")
            assert c.result(live)
        infer(s, 100_000)
