"""Clients that hold a connection and do nothing lose it. Slow ones, and those that wait for good reasons, are
served."""

import json
import socket
import struct
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as tg

import http2
import models
from harness import BINARY, REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="docs/deviations.csv has Triton's answers")

STALL = 60  # seconds that a client may hang


@pytest.fixture
def repo(tmp_path):
    io = [(n, "UINT8", [-1]) for n in ("INPUT0", "OUTPUT0")]
    models.write_builtin(tmp_path / "models", "bytes", "identity", None, io[:1], io[1:])
    return tmp_path / "models"


def connect(address, *parts):
    host, port = address.removeprefix("http://").rsplit(":", 1)
    s = socket.create_connection((host, int(port)), 60)
    for p in parts:
        s.sendall(p)
    return s


def head(method, path, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def infer_body(size):
    return json.dumps({"inputs": [{"name": "INPUT0", "shape": [size], "datatype": "UINT8",
                                   "data": [1] * size}]}).encode()


def closed(sock):
    """Whether the server has ended the connection."""
    sock.settimeout(0.01)
    try:
        while sock.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def hung(s):
    """Connections of clients that hang, by what they do."""
    post = "/v2/models/bytes/infer"
    out = {
        "HTTP: nothing": connect(s.http),
        "HTTP: half a header": connect(s.http, b"GET /v2 HT"),
        "HTTP: no body": connect(s.http, head("POST", post, "Content-Length: 100")),
        "HTTP: half a body": connect(s.http, head("POST", post, "Content-Length: 100000"), bytes(20_000)),
        "metrics: no body": connect(s.metrics, head("POST", "/metrics", "Content-Length: 100")),
        "metrics: half a header": connect(s.metrics, b"GET /met"),
        "GUI: no body": connect(s.ui, head("POST", "/api/config/check", "X-Nereid: 1", "Content-Length: 100")),
        "GUI: half a body": connect(s.ui, head("POST", "/api/config/check", "X-Nereid: 1", "Content-Length: 100"),
                                    b"{"),
    }
    calls = {
        "gRPC: settings": lambda c: None,
        "gRPC: half a frame": lambda c: c.send(struct.pack(">I", 100)[1:], b"\x06"),
        "gRPC: half a header block": lambda c: c.send(
            http2.frame(http2.HEADERS, 0, 1, http2.header_block(http2.INFER)[:20])),
        "gRPC: no message": lambda c: c.open(http2.INFER),
        "gRPC: half a message": lambda c: c.send(
            http2.frame(http2.DATA, 0, c.open(http2.INFER), struct.pack(">BI", 0, 100) + b"half")),
        "gRPC: half a message of a stream": lambda c: c.send(
            http2.frame(http2.DATA, 0, c.open(http2.STREAM), struct.pack(">BI", 0, 100) + b"half")),
    }
    for name, run in calls.items():
        c = http2.Connection(s.grpc)
        run(c)
        out[name] = c.sock
    return out


def test_A26_A27_clients_that_hang_and_clients_that_wait(repo, tmp_path):
    with Server(repo, tmp_path) as s:
        held = hung(s)
        del held["gRPC: settings"]  # it has five minutes
        begin = time.monotonic()
        # What must go on: a channel without calls after one, a stream without messages, events, a slow body, a client
        # that compresses its first message.
        first = http2.Connection(s.grpc)
        idle = tg.InferenceServerClient(s.grpc)
        assert idle.is_server_live()
        answers, stream = [], tg.InferenceServerClient(s.grpc)
        stream.start_stream(lambda result, error: answers.append(error or result))
        events = connect(s.ui, head("GET", "/api/events", "Accept: text/event-stream"))
        body = infer_body(40)
        slow = connect(s.http, head("POST", "/v2/models/bytes/infer", f"Content-Length: {len(body)}"))
        late = connect(s.http, head("POST", "/v2/models/bytes/infer", f"Content-Length: {len(body)}"))
        step = threading.Event()
        for i in range(len(body)):
            slow.sendall(body[i:i + 1])
            if i == len(body) // 8:  # longer than a header may take
                late.sendall(body)
                assert late.recv(100).startswith(b"HTTP/1.1 200"), "a body that came after 12 seconds"
            step.wait((STALL + 30) / len(body))
        assert slow.recv(100).startswith(b"HTTP/1.1 200"), "a body that takes longer than a client may hang"
        # Each client that hung has lost its connection, or its call and then the connection.
        until(lambda: all([closed(c) for c in held.values()]), 3 * STALL - (time.monotonic() - begin),
              "connections are still open", lambda: str([k for k, c in held.items() if not closed(c)]))
        assert idle.is_server_live() and not closed(events)
        live = first.open(http2.LIVE)
        first.message(live, b"")
        assert first.result(live), "a first call after more than a minute"
        i = tg.InferInput("INPUT0", [3], "UINT8")
        i.set_data_from_numpy(np.array([1, 2, 3], np.uint8))
        stream.async_stream_infer("bytes", [i])
        until(lambda: answers, 60, "the stream does not answer")
        assert answers[0].as_numpy("OUTPUT0").tolist() == [1, 2, 3]
        stream.stop_stream()


def test_A27_clients_that_hang_do_not_delay_the_exit(repo, tmp_path):
    with Server(repo, tmp_path) as s:
        held = hung(s)
        begin = time.monotonic()
        assert s.stop(limit=60) == 0
        took = time.monotonic() - begin
        assert took < 20, f"the server took {took} s; --exit-timeout-secs is 30"
        assert all(closed(c) for c in held.values())


def test_A27_a_flood_of_SETTINGS_ends_the_connection(repo, tmp_path):
    """The windows of all calls move with each entry, so their number is limited."""
    with Server(repo, tmp_path) as s, http2.Connection(s.grpc, timeout=30) as c:
        for _ in range(4000):
            c.open(http2.STREAM)
        c.send(http2.settings(*[(http2.INITIAL_WINDOW, n) for n in range(10_000)]))
        reason = c.ended()
        assert struct.unpack(">I", reason[4:8]) == (11,), reason  # ENHANCE_YOUR_CALM
        with http2.Connection(s.grpc) as other:
            live = other.open(http2.LIVE)
            other.message(live, b"")
            assert other.result(live)


@pytest.mark.parametrize("port", ["grpc", "http", "metrics", "ui"])
def test_A27_the_connections_of_a_port_leave_room_for_the_others(repo, tmp_path, port):
    command = ["sh", "-c", f'ulimit -n 512 && exec {BINARY} serve "$@"', "sh"]
    with Server(repo, tmp_path, command=command) as s:
        held = [http2.Connection(s.grpc) if port == "grpc" else connect(getattr(s, port)) for _ in range(600)]
        for other in {"http", "metrics", "ui"} - {port}:
            path = {"http": "/v2", "metrics": "/metrics", "ui": "/api/server"}[other]
            address = getattr(s, other).removeprefix("http://")
            assert s.request("GET", path, address=address).status == 200, other
        if port != "grpc":
            with http2.Connection(s.grpc) as c:
                live = c.open(http2.LIVE)
                c.message(live, b"")
                assert c.result(live), "gRPC"
        for c in held:
            c.close()
        address = getattr(s, port).removeprefix("http://")
        if port != "grpc":
            until(lambda: s.request("GET", "/metrics" if port == "metrics" else "/", address=address).status < 500, 60,
                  f"{port} does not recover")
