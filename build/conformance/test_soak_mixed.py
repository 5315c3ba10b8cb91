"""One server under everything at once: both protocols, Python, sequences, streams, reloads, imports, kills of model
processes, and a full disk. `make test` runs it for some seconds, `make soak` for an hour.

No request may be lost and no answer wrong. Memory, descriptors, threads and processes must not grow."""

import contextlib
import json
import os
import queue
import shutil
import signal
import statistics
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

import models
from harness import REFERENCE, ROOT, Server, until
from limits import MIB, small_disk
from test_soak import FULL, build_loadgen, console, finish, load
from workers import Workers

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(4500),
    pytest.mark.skipif(REFERENCE, reason="uses this server's console"),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which only root may do"),
]
SECONDS = 3600 if FULL else 24

# The output is the process and the input plus one.
VICTIM = """import os

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()
            y = np.array([os.getpid(), x[0] + 1], np.int64)
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", y)]))
        return out
"""


def write_repository(repo):
    models.write_plus_version(repo, config="dynamic_batching { }\n")
    models.write_identity(repo, "identity")
    models.write_repeat(repo)
    shutil.copytree(ROOT / "models-sample/running_sum", repo / "running_sum")
    head = 'backend: "python"\n'
    models.write(repo / "echo/config.pbtxt", "max_batch_size: 8\n" + head + models.tensors(
        "input", [("INPUT0", "FP32", [16])]) + models.tensors("output", [("OUTPUT0", "FP32", [16])]))
    models.write(repo / "echo/1/model.py", models.PYTHON_HEAD + models.identity_python(("INPUT0", "OUTPUT0")))
    models.write(repo / "victim/config.pbtxt", head + models.tensors(
        "input", [("INPUT0", "INT64", [1])]) + models.tensors("output", [("OUTPUT0", "INT64", [2])]))
    models.write(repo / "victim/1/model.py", VICTIM)


def sequence(client):
    """Returns a step that sends a sequence of ten numbers and checks each sum."""

    def step(n):
        total = 0
        for i in range(10):
            x = triton_http.InferInput("value", [1, 1], "INT64")
            x.set_data_from_numpy(np.array([[n + i]], np.int64))
            answer = client.infer("running_sum", [x], sequence_id=n + 1, sequence_start=i == 0, sequence_end=i == 9)
            total += n + i
            assert answer.as_numpy("sum")[0][0] == total, (n, i)

    return step


def stream(address):
    """Returns a step that opens a stream and checks each of 20 responses."""
    names = (("IN", np.int32), ("DELAY", np.uint32), ("WAIT", np.uint32))

    def step(n):
        answers = queue.Queue()
        with triton_grpc.InferenceServerClient(address) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            values = (np.arange(n, n + 20), np.zeros(20), np.zeros(1))
            inputs = []
            for (name, dtype), x in zip(names, values):
                inputs.append(triton_grpc.InferInput(name, list(x.shape), "INT32" if dtype is np.int32 else "UINT32"))
                inputs[-1].set_data_from_numpy(x.astype(dtype))
            client.async_stream_infer("repeat", inputs)
            for i in range(20):
                result, error = answers.get(timeout=60)
                assert error is None, error
                assert result.as_numpy("OUT")[0] == n + i
            client.stop_stream()

    return step


class Victim:
    """A Python model whose process is killed again and again."""

    def __init__(self, client):
        self.client, self.pid, self.killed, self.failed = client, 0, 0, 0

    def infer(self, n):
        x = triton_http.InferInput("INPUT0", [1], "INT64")
        x.set_data_from_numpy(np.array([n], np.int64))
        try:
            pid, y = self.client.infer("victim", [x]).as_numpy("OUTPUT0")
        except triton_http.InferenceServerException as e:
            assert "process" in e.message(), e  # it was in the process that was killed
            self.failed += 1
            return
        assert y == n + 1
        self.pid = int(pid)

    def kill(self, _):
        pid, self.pid = self.pid, 0
        # The process may be gone: its last answer may have been read after it was killed.
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
                self.killed += 1


class Disk:
    """The small file system of the data folder, full for a part of the time."""

    def __init__(self, folder):
        self.filler, self.full, self.lock = folder / "filler", False, threading.Lock()
        self.refused, self.fillings = 0, 0

    def step(self, n):
        """Fills the disk in every fourth step, and frees it in the next one."""
        if n % 4 == 2:
            with self.lock:
                self.full = True
                self.fillings += 1
            with contextlib.suppress(OSError), open(self.filler, "wb", buffering=0) as f:
                while True:
                    f.write(bytes(MIB))
        elif n % 4 == 3:
            self.filler.unlink()
            with self.lock:
                self.full = False

    def change(self, s, method, path, value):
        """A change by the console. It may be refused if the disk was full meanwhile, and else not. None: refused."""
        with self.lock:
            was, fillings = self.full, self.fillings
        a = s.request(method, path, json.dumps(value).encode(),
                      {"X-Nereid": "1", "Content-Type": "application/json"}, s.ui_address)
        if a.status == 507 and (was or self.fillings > fillings):
            self.refused += 1
            return None
        assert a.status < 300, (method, path, a.status, a.body)
        return a.json if a.body else {}


def reloads(s, disk, config):
    def step(n):
        config.write_text(config.read_text().split("\n# ")[0] + f"\n# {n}\n")
        disk.change(s, "POST", "/api/models/plus_version/load", None)

    return step


def imports(s, disk, source):
    """Returns a step that replaces a model by an import."""

    def step(_):
        made = disk.change(s, "POST", "/api/imports", {"path": str(source)})
        if made is None:
            return
        path = f"/api/imports/{made['id']}"
        if disk.change(s, "POST", path + "/commit", {"consentCode": True, "replace": made["exists"]}) is None:
            disk.change(s, "DELETE", path, None)
            return
        state = until(lambda: console_state(s, path), 60, "the import does not end")
        if state["state"] != "loaded":
            assert disk.refused or disk.full, state
            disk.change(s, "DELETE", path, None)

    return step


def console_state(s, path):
    a = console(s, "GET", path)
    return a if a["state"] in ("loaded", "failed") else None


def figures(pid):
    """What must not grow: private memory in kB, descriptors, threads, processes below the server."""
    with open(f"/proc/{pid}/status") as f:
        kb = next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))
    children = 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{p}/stat") as f:
            children += int(f.read().rsplit(")", 1)[1].split()[1]) == pid
    return kb, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), children


def test_F16_nothing_is_lost_while_everything_happens_at_once(tmp_path):
    build_loadgen()
    repo, source = tmp_path / "models", tmp_path / "source"
    write_repository(repo)
    models.write_identity(source, "imported")
    with small_disk(tmp_path / "data", 96 * MIB), Server(repo, tmp_path, "--model-control-mode=explicit",
                                                         "--load-model=*", "--history-max-bytes=16MiB") as s:
        # One client a thread: the library's clients are not for several threads.
        clients = [triton_http.InferenceServerClient(s.http, network_timeout=120) for _ in range(5)]
        loads = [
            load(s, "http", 4, SECONDS + 240, "plus_version", "version"),
            load(s, "json", 2, SECONDS + 240, "identity", "identity"),
            load(s, "grpc", 4, SECONDS + 240, "plus_version", "version"),
            load(s, "grpc", 2, SECONDS + 240, "echo", "identity"),
            load(s, "http", 2, SECONDS + 240, "echo", "identity"),
        ]
        work, disk = Workers(), Disk(tmp_path / "data")
        victims = [Victim(c) for c in clients[:2]]
        samples = []
        try:
            for i, v in enumerate(victims):
                work.every(0.01, f"victim {i}", v.infer)
            work.every(2, "kill", victims[0].kill)
            for i, c in enumerate(clients[2:4]):
                work.every(0, f"sequence {i}", lambda n, c=c, i=i: sequence(c)(2 * n + i))
            work.every(0.1, "stream", stream(s.grpc))
            work.every(0.5, "reload", reloads(s, disk, repo / "plus_version/config.pbtxt"))
            work.every(1, "import", imports(s, disk, source / "imported"))
            work.every(1.5, "disk", disk.step)
            end = time.monotonic() + SECONDS
            while not work.faults and (time.monotonic() < end or disk.refused == 0 or victims[0].killed < 3):
                samples.append(figures(s.process.pid))
                assert time.monotonic() < end + 200, (work.counts, disk.refused, victims[0].killed)
                work.stop.wait(SECONDS / 100)
            ended = [p.communicate() for p in loads if p.poll() is not None]
        finally:
            work.end()
            points = [] if work.faults else [finish(p) for p in loads]
            for p in loads:
                p.kill()
        assert not work.faults, (work.faults, s.log()[-3000:])
        assert not ended, ended
        for c in clients:
            c.close()
    requests = sum(p["requests"] for p in points)
    quarter = len(samples) // 4
    then, now = ([statistics.median(column) for column in zip(*part)]
                 for part in (samples[quarter : 2 * quarter], samples[-quarter:]))
    print(f"{requests} requests, 0 errors; {work.counts}; {victims[0].killed} kills, "
          f"{sum(v.failed for v in victims)} requests failed with them; {disk.refused} changes refused for the full disk; "
          f"kB, descriptors, threads, processes: {then} in the second quarter, {now} in the last")
    assert sum(v.failed for v in victims) <= 2 * victims[0].killed
    assert now[0] <= then[0] * 1.1 + 16_000, "the memory grows"
    for was, is_, what in zip(then[1:], now[1:], ("descriptors", "threads", "processes")):
        assert is_ <= was + 12, f"{what} grow from {was} to {is_}"
