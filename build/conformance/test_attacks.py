"""A small server, attacked for minutes beside normal load.

The server has 512 MiB of memory, one core and 256 descriptors. Attackers without good intentions repeat what ended or
stalled such servers. No request of a client that behaves well may fail. `make test` runs it for some seconds,
`make soak` for ten minutes."""

import contextlib
import gzip
import socket
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import helper

import http2
import models
from harness import BINARY, REFERENCE, Server, until
from limits import MIB, memory_group
from test_soak import FULL
from workers import Workers

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(REFERENCE, reason="the reference does not survive these attacks"),
]
SECONDS = 600 if FULL else 25

HANG = models.PYTHON_HEAD + """    def initialize(self, args):
        while True:
            pass
"""
# A negative input ends the process.
POISON = "import os\n\n" + models.PYTHON_HEAD + """    def execute(self, requests):
        out = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()
            if x[0] < 0:
                os.abort()
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", x)]))
        return out
"""


def write_repository(repo):
    models.write_identity(repo, "identity", dims=(16,))
    two = [("A", "INT32", [16]), ("B", "INT32", [16])]
    models.add_model(repo, "div", "max_batch_size: 8\n", two, [("C", "INT32", [16])],
                     [helper.make_node("Div", ["A", "B"], ["C"])], "")
    one = models.tensors("input", [("INPUT0", "INT64", [1])]) + models.tensors("output", [("OUTPUT0", "INT64", [1])])
    for name, code in (("hang", HANG), ("poison", POISON)):
        models.write(repo / name / "config.pbtxt", 'backend: "python"\n' + one)
        models.write(repo / name / "1/model.py", code)


def small(group):
    """The command that starts a server with one core, 256 descriptors and the memory of the cgroup."""
    script = f"echo $$ > {group.procs} && ulimit -n 256 && exec taskset -c 0 {BINARY} serve \"$@\""
    return ["bash", "-c", script, "serve"]


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


# --- clients that behave well ---


def infer_by(module, address):
    """Returns a step over a connection that stays open. A client of the library belongs to one thread."""
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    clients = []

    def step(_):
        if not clients:
            clients.append(module.InferenceServerClient(address))
        tensor = module.InferInput("INPUT0", [1, 16], "FP32")
        tensor.set_data_from_numpy(x)
        y = clients[0].infer("identity", [tensor]).as_numpy("OUTPUT0")
        assert np.array_equal(x, y)

    return step


def fetch(s, path, address):
    """Returns a step with a new connection each time."""

    def step(_):
        a = s.request("GET", path, None, {"X-Nereid": "1"}, address)
        assert a.status == 200, a.status

    return step


# --- attackers ---


def raw(address, data, wait=2.0, read=True):
    """Sends bytes, and reads what comes until the time is over."""
    with socket.create_connection(split(address), timeout=wait) as c:
        c.sendall(data)
        end = time.monotonic() + wait
        while read and time.monotonic() < end and c.recv(65536):
            pass


def head(path, length, more=""):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}\r\n".encode()


def bombs(kib):
    """A gzip body that unpacks to 1,000 times its size."""
    return gzip.compress(bytes(kib * MIB), 9)


BOMB_64K = bombs(60)
START = http2.PREFACE + http2.settings()
def attackers(s):
    """The attacks, each a function that makes one attempt."""
    infer = "/v2/models/identity/infer"
    gib = gzip.compress(bytes(512 * MIB), 9)

    def divide_by_minus_one():
        text = '{"inputs":[{"name":"A","datatype":"INT32","shape":[1,16],"data":[%s]},' % ",".join(["-2147483648"] * 16)
        text += '{"name":"B","datatype":"INT32","shape":[1,16],"data":[%s]}]}' % ",".join(["-1"] * 16)
        s.post("/v2/models/div/infer", text.encode())

    def poison():
        data = [-1]
        s.post("/v2/models/poison/infer",
               {"inputs": [{"name": "INPUT0", "datatype": "INT64", "shape": [1], "data": data}]})

    def load_what_hangs():
        with contextlib.suppress(OSError):
            raw(s.http, head("/v2/repository/models/hang/load", 0))
        raw(s.http, head("/v2/repository/models/hang/unload", 0))

    def gzip_bodies():
        for _ in range(4):
            raw(s.http, head(infer, len(BOMB_64K), "Content-Encoding: gzip\r\n") + BOMB_64K, 0.5)

    def large_bodies():
        with socket.create_connection(split(s.http), timeout=5) as c:
            c.sendall(head(infer, 60 * MIB))
            for _ in range(59):
                c.sendall(bytes(MIB))

    def grpc_bomb():
        with http2.Connection(s.grpc, timeout=5) as c:
            c.message(stream := c.open(http2.INFER, grpc_encoding="gzip"), gib, compressed=True)
            c.result(stream)

    def settings_flood():
        opened = b"".join(http2.headers(1 + 2 * i, http2.INFER) for i in range(500))
        entries = ((http2.INITIAL_WINDOW, 65535 + i % 2) for i in range(2700))
        raw(s.grpc, START + opened + http2.settings(*entries) * 40, 1)

    def announced_terabyte():
        raw(s.http, head(infer, 1 << 40), 1)

    held = []

    def hold(address, data):
        """Keeps a connection without progress. Attackers have at most 600 of them."""
        c = socket.create_connection(split(address), timeout=2)
        c.sendall(data)
        held.append(c)
        while len(held) > 600:
            held.pop(0).close()

    def half_requests():
        ui = s.ui_address
        for address, data in (
            (s.http, head(infer, 1000)), (s.http, b"POST /v2/mod"), (s.http, b""),
            (s.metrics, head("/metrics", 10)), (s.metrics, b""),
            (ui, head("/api/infer/identity", 10, "X-Nereid: 1\r\n")), (ui, b"GET /api/hist"),
            (s.grpc, START), (s.grpc, http2.PREFACE + b"\0\0"), (s.grpc, b""),
            (s.grpc, START + http2.frame(http2.HEADERS, 0, 1, b"\x83")),
        ):
            with contextlib.suppress(OSError):
                hold(address, data)

    def readers_that_never_read():
        ui = s.ui_address
        path = f"/api/history?from=0&to={int(time.time() * 1000)}"
        hold(ui, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Nereid: 1\r\n\r\n".encode() * 20)
        hold(s.metrics, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)

    return [divide_by_minus_one, poison, load_what_hangs, gzip_bodies, gzip_bodies, large_bodies, large_bodies,
            large_bodies,
            grpc_bomb, settings_flood, announced_terabyte, half_requests, readers_that_never_read], held


def test_F15_a_small_server_serves_while_it_is_attacked(tmp_path):
    repo = tmp_path / "models"
    write_repository(repo)
    load = [f"--load-model={m}" for m in ("identity", "div", "poison")]
    with memory_group(512 * MIB) as group:
        if group is None:
            pytest.skip("needs a control group of memory")
        with Server(repo, tmp_path, "--model-control-mode=explicit", *load, command=small(group)) as s:
            fight(s)
            print(f"at most {group.peak() // MIB} MiB")
            began = time.monotonic()
            assert s.stop(limit=60) == 0
            print(f"stopped after {time.monotonic() - began:.1f} s")


def fight(s):
    """Attacks the server while others use it."""
    work = Workers()
    attacks, held = attackers(s)
    try:
        work.every(0.05, "http", infer_by(triton_http, s.http))
        work.every(0.05, "grpc", infer_by(triton_grpc, s.grpc))
        work.every(0.5, "metrics", fetch(s, "/metrics", s.metrics))
        work.every(0.5, "page", fetch(s, "/api/server", s.ui_address))
        until(lambda: all(work.counts.values()), 60, "not every client has an answer before the attacks")
        for attack in attacks:
            pause = 2 if attack.__name__ == "readers_that_never_read" else 0.2
            work.every(pause, attack.__name__, lambda _, attack=attack: attack(), may_fail=True)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not work.faults and s.process.poll() is None:
            work.stop.wait(0.5)
    finally:
        work.end()
        for c in held:
            c.close()
    print(work.counts)
    assert s.process.poll() is None, f"the server ended with {s.process.poll()}:\n{s.log()[-3000:]}"
    assert not work.faults, (work.faults, s.log()[-3000:])
