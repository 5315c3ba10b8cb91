"""A small server, attacked for minutes beside normal load.

The server has 512 MiB of memory, one core and 256 descriptors. Attackers without good intentions repeat what ended or
stalled such servers. No request of a client that behaves well may fail. `make test` runs it for some seconds,
`make soak` for ten minutes."""

import contextlib
import gzip
import os
import pathlib
import socket
import struct
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import helper

import models
from harness import REFERENCE, Server, until
from test_soak import FULL

CGROUP = pathlib.Path("/sys/fs/cgroup/memory")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(REFERENCE, reason="the reference does not survive these attacks"),
    pytest.mark.skipif(not os.access(CGROUP / "cgroup.procs", os.W_OK), reason="needs a memory cgroup (v1) to write to"),
]
SECONDS = 600 if FULL else 25
MIB = 1 << 20

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


@contextlib.contextmanager
def memory_cgroup(size):
    group = CGROUP / f"nereid-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(size))
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text().split() or None, 30, "processes stay in the cgroup")
        group.rmdir()


def small(group):
    """The command that starts a server with one core, 256 descriptors and the memory of the cgroup."""
    from harness import BINARY

    script = f"echo $$ > {group}/cgroup.procs && ulimit -n 256 && exec taskset -c 0 {BINARY} serve \"$@\""
    return ["bash", "-c", script, "serve"]


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Battle:
    """Threads that repeat a step. The faults of well-behaved clients are kept; attackers may fail."""

    def __init__(self):
        self.stop, self.faults, self.counts, self.threads = threading.Event(), [], {}, []

    def client(self, name, step, pause=0.05):
        self._start(name, step, pause, attacker=False)

    def attacker(self, step, pause=0.2):
        self._start(step.__name__, step, pause, attacker=True)

    def _start(self, name, step, pause, attacker):
        self.counts[name] = 0

        def run():
            while not self.stop.is_set():
                try:
                    step()
                    self.counts[name] += 1
                except Exception as e:
                    if not attacker:
                        self.faults.append(f"{name} after {self.counts[name]}: {e!r}")
                        return
                self.stop.wait(pause)

        self.threads.append(threading.Thread(target=run, name=name))
        self.threads[-1].start()

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()


# --- clients that behave well ---


def infer_by(module, address):
    """Returns a step over a connection that stays open. A client of the library belongs to one thread."""
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    clients = []

    def step():
        if not clients:
            clients.append(module.InferenceServerClient(address))
        tensor = module.InferInput("INPUT0", [1, 16], "FP32")
        tensor.set_data_from_numpy(x)
        y = clients[0].infer("identity", [tensor]).as_numpy("OUTPUT0")
        assert np.array_equal(x, y)

    return step


def fetch(s, path, address):
    """Returns a step with a new connection each time."""

    def step():
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
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def grpc_call(stream, message, compressed):
    """The frames of a ModelInfer call with one message."""
    def literal(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    block = b"\x83\x86" + literal(b":path", b"/inference.GRPCInferenceService/ModelInfer") + literal(
        b":authority", b"localhost") + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers")
    if compressed:
        block += literal(b"grpc-encoding", b"gzip")
    data = bytes([compressed]) + struct.pack(">I", len(message)) + message
    frames = frame(1, 4, stream, block)
    for i in range(0, len(data), 16384):
        frames += frame(0, int(i + 16384 >= len(data)), stream, data[i : i + 16384])
    return frames


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
        raw(s.grpc, PREFACE + frame(4, 0, 0) + grpc_call(1, gib, 1), 5)

    def settings_flood():
        opened = b"".join(grpc_call(1 + 2 * i, b"", 0)[:-5] for i in range(500))
        entries = b"".join(struct.pack(">HI", 4, 65535 + i % 2) for i in range(2700))
        raw(s.grpc, PREFACE + frame(4, 0, 0) + opened + frame(4, 0, 0, entries) * 40, 1)

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
        ui = s.ui.removeprefix("http://")
        for address, data in (
            (s.http, head(infer, 1000)), (s.http, b"POST /v2/mod"), (s.http, b""),
            (s.metrics, head("/metrics", 10)), (s.metrics, b""),
            (ui, head("/api/infer/identity", 10, "X-Nereid: 1\r\n")), (ui, b"GET /api/hist"),
            (s.grpc, PREFACE + frame(4, 0, 0)), (s.grpc, PREFACE + b"\0\0"), (s.grpc, b""),
            (s.grpc, PREFACE + frame(4, 0, 0) + frame(1, 0, 1, b"\x83")),
        ):
            with contextlib.suppress(OSError):
                hold(address, data)

    def readers_that_never_read():
        ui = s.ui.removeprefix("http://")
        path = f"/api/history?from=0&to={int(time.time() * 1000)}"
        hold(ui, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Nereid: 1\r\n\r\n".encode() * 20)
        hold(s.metrics, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)

    return [divide_by_minus_one, poison, load_what_hangs, gzip_bodies, gzip_bodies, large_bodies, large_bodies, large_bodies,
            grpc_bomb, settings_flood, announced_terabyte, half_requests, readers_that_never_read], held


def test_F15_a_small_server_serves_while_it_is_attacked(tmp_path):
    repo = tmp_path / "models"
    write_repository(repo)
    load = [f"--load-model={m}" for m in ("identity", "div", "poison")]
    with memory_cgroup(512 * MIB) as group, Server(
        repo, tmp_path, "--model-control-mode=explicit", *load, command=small(group)
    ) as s:
        battle = Battle()
        attacks, held = attackers(s)
        try:
            battle.client("http", infer_by(triton_http, s.http))
            battle.client("grpc", infer_by(triton_grpc, s.grpc))
            battle.client("metrics", fetch(s, "/metrics", s.metrics), 0.5)
            battle.client("page", fetch(s, "/api/server", s.ui.removeprefix("http://")), 0.5)
            until(lambda: all(battle.counts.values()), 60, "not every client has an answer before the attacks")
            for attack in attacks:
                battle.attacker(attack, 2 if attack.__name__ == "readers_that_never_read" else 0.2)
            end = time.monotonic() + SECONDS
            while time.monotonic() < end and not battle.faults and s.process.poll() is None:
                battle.stop.wait(0.5)
        finally:
            battle.end()
            for c in held:
                c.close()
        peak = int((group / "memory.max_usage_in_bytes").read_text()) // MIB
        print(f"{battle.counts}; at most {peak} MiB")
        assert s.process.poll() is None, f"the server ended with {s.process.poll()}:\n{s.log()[-3000:]}"
        assert not battle.faults, (battle.faults, s.log()[-3000:])
        began = time.monotonic()
        assert s.stop(limit=60) == 0
        print(f"stopped after {time.monotonic() - began:.1f} s")
