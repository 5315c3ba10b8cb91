"""Models of each test backend are loaded, used and unloaded many times, also those that crash. No process, descriptor,
shared memory or memory is left. `make test` loads each 25 times, `make soak` 200 times."""

import concurrent.futures
import os
import pathlib

import pytest

from harness import REFERENCE, SANITIZED, Server, until
from test_triton_backends import infer, library, model
from test_triton_faults import throwing_library
from test_triton_states import states
from test_triton_strategies import MOST, PLAIN, strategy

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800),
              pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")]

CYCLES = 200 if os.environ.get("NEREID_SOAK") == "full" else 25


@pytest.fixture
def server(tmp_path):
    models, backends = tmp_path / "models", tmp_path / "backends"
    for name in ("identity", "stream", "sequence", "calls", "reports", "wastes", "faults"):
        library(f"{name}_test", backends / f"{name}_test", "-pthread")
    throwing_library(backends)
    model(models, "plain", "identity_test")
    model(models, "batched", "identity_test", PLAIN)
    strategy("volume", models / "chosen/1/batchstrategy.so")
    model(models, "chosen", "identity_test", PLAIN + MOST)
    model(models, "stream", "stream_test", "model_transaction_policy { decoupled: true }", dims="1")
    model(models, "sequence", "sequence_test", states(1), dims="1")
    for name in ("calls", "reports", "wastes", "faults", "throws"):
        model(models, name, f"{name}_test")
    with Server(models, tmp_path, f"--backend-directory={backends}", "--model-control-mode=explicit",
                "--load-model=plain") as s:
        yield s


def answers(name, values, **more):
    """A use of a model that answers with the values."""
    def use(server):
        answer = infer(server, name, values, **more)
        assert answer.status == 200 and len(answer.json["outputs"][0]["data"]) == 2, answer.body
    return use


def crashes(name, cause):
    """A use of a model whose process ends."""
    def use(server):
        assert infer(server, name, [cause]).status == 503
    return use


def streams(server):
    answer = server.post("/v2/models/stream/generate_stream", {"IN": [3]})
    assert answer.status == 200 and answer.body.count(b"data: ") == 3, answer.body


def adds(server):
    for n in range(2):
        answer = infer(server, "sequence", [n + 1], parameters={
            "sequence_id": 7, "sequence_start": n == 0, "sequence_end": n == 1})
        assert answer.json["outputs"][0]["data"] == [[1], [3]][n], answer.body


USES = {
    "batched": answers("batched", [[1, 2]]),
    "chosen": answers("chosen", [[1, 2]]),
    "stream": streams,
    "sequence": adds,
    "calls": answers("calls", [1, 2]),  # it calls the model plain, which stays
    "reports": answers("reports", [1, 0]),
    "wastes": answers("wastes", [3, 0]),  # keeps memory, threads, descriptors and a response
    "faults": crashes("faults", 3),  # on a thread of its own
    "throws": crashes("throws", 1),
}


def processes(server):
    """How many processes the server started, and those of them, without the guard that ends them after a crash."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(stat.parent.name), stat.read_text().rsplit(")", 1)[1]
            if (stat.parent / "cmdline").read_bytes().startswith(b"nereid-guard"):
                continue
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        children.setdefault(int(rest.split()[1]), []).append(pid)
    found, look = [], [server.process.pid]
    while look:
        started = children.get(look.pop(), [])
        found += started
        look += started
    return len(found)


def held(server):
    proc = pathlib.Path(f"/proc/{server.process.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return {
        "processes": processes(server),
        "descriptors": len(os.listdir(proc / "fd")),
        "shared KiB": int(status["RssShmem"].split()[0]),
        "KiB": int(status["VmRSS"].split()[0]),
    }


def test_D076_nothing_is_left_of_many_loads_of_each_backend(server):
    def cycle(name):
        answer = server.post(f"/v2/repository/models/{name}/load")
        assert answer.status == 200, answer.body
        USES[name](server)
        assert server.post(f"/v2/repository/models/{name}/unload").status == 200
        until(lambda: server.state(name) == "UNAVAILABLE", 60, f"{name} is not unloaded", server.log)

    def cycles(count):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for _ in range(count):
                list(pool.map(cycle, USES))
        until(lambda: held(server)["processes"] == 1, 60, "processes are left beside that of plain", server.log)
        return held(server)

    before = cycles(10)  # pools fill
    after = cycles(CYCLES)
    print(f"{CYCLES} loads of {len(USES)} models: {before}, then {after}")
    until(lambda: held(server)["descriptors"] <= before["descriptors"] + 8, 60, f"descriptors are left: {before}",
          server.log)
    assert after["shared KiB"] <= before["shared KiB"] + 1024, (before, after)
    if not SANITIZED:  # the address sanitizer keeps memory that was freed
        assert after["KiB"] <= before["KiB"] + (16 << 10), (before, after)
