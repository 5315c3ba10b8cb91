"""Models of each test backend are loaded, used and unloaded many times, also those that crash. No process, descriptor,
shared memory or memory is left. `make test` loads each 25 times, `make soak` 200 times."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import pytest

from harness import BINARY, REFERENCE, ROOT, SANITIZED, Server, until
from test_triton_agents import agents, answers as identity_answers, write  # noqa: F401: agents is a fixture
from test_triton_backends import infer, library, model, throwing_library
from test_triton_caches import caches  # noqa: F401: a fixture
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
    """The processes that the server started, and those of them, without the guard that ends them after a crash."""
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
    return found


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def resident(pids):
    return sum(int(status(pid)["VmRSS"].split()[0]) for pid in pids)


def held(server):
    pid = server.process.pid
    status_of = status(pid)
    return {
        "processes": len(processes(server)),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "shared KiB": int(status_of["RssShmem"].split()[0]),
        "KiB": int(status_of["VmRSS"].split()[0]),
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


def test_A081_C081_nothing_is_left_of_many_loads_with_an_agent_and_a_cache(tmp_path, agents, caches):  # noqa: F811
    """The agent replaces the files of a model, refuses another, and ends its process with a third. The cache has the
    answers of the first one."""
    models = tmp_path / "models"
    write(models, "secret", "response_cache { enable: true }", key=42)
    write(models, "refused", refuse="no")
    write(models, "crash", crash=1)
    with Server(models, tmp_path, f"--repoagent-directory={agents}", f"--cache-directory={caches}",
                "--cache-config=own,most=10", "--model-control-mode=explicit") as server:
        def cycle(also):
            answer = server.post("/v2/repository/models/secret/load")
            assert answer.status == 200, answer.body
            assert identity_answers(server, "secret") and identity_answers(server, "secret")
            assert server.post("/v2/repository/models/secret/unload").status == 200
            until(lambda: server.state("secret") == "UNAVAILABLE", 60, "secret is not unloaded", server.log)
            assert server.post(f"/v2/repository/models/{also}/load").status == 500

        def cycles(count):
            for n in range(count):
                cycle("crash" if n % 5 == 0 else "refused")  # at last the process of the agent stays
            all_of_it = processes(server)
            return {**held(server), "processes' KiB": resident(all_of_it),
                    "processes' descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in all_of_it),
                    "files": sum(len(files) for _, _, files in os.walk(tmp_path))}

        before = cycles(10)
        after = cycles(CYCLES)
        print(f"{CYCLES} loads: {before}, then {after}")
        assert after["processes"] == before["processes"] == 2, "the agent's and the cache's"
        assert after["files"] <= before["files"]
        assert after["descriptors"] <= before["descriptors"] + 8
        assert after["processes' descriptors"] <= before["processes' descriptors"] + 8
        assert after["shared KiB"] <= before["shared KiB"] + 1024
        if not SANITIZED:
            assert after["KiB"] <= before["KiB"] + (16 << 10)
            assert after["processes' KiB"] <= before["processes' KiB"] + (8 << 10)


SERVERS = """
import json, os, sys
import numpy as np
import nereid

models, caches, count = sys.argv[1:]

def parent(pid):
    try:
        return open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended meanwhile

def servers(count):
    for n in range(count):
        with nereid.Server(models, model_control_mode="explicit", load_model=["echo"], cache_directory=caches,
                           cache_config="own,most=10", log_warning=False) as server:
            for _ in range(2):
                server.model("echo").infer({"INPUT0": np.ones((1, 16), np.float32)})
            stats = server.model("echo").statistics()["model_stats"][0]["inference_stats"]
            assert stats["cache_hit"]["count"] == 1, stats
    children = [pid for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == str(os.getpid())]
    rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return {"processes": len(children), "descriptors": len(os.listdir("/proc/self/fd")), "KiB": rss}

print(json.dumps([servers(20), servers(int(count))]))
"""


@pytest.mark.skipif(SANITIZED, reason="the library needs the program of its version")
def test_C081_D078_nothing_is_left_of_many_servers_with_a_cache_library(tmp_path, caches):  # noqa: F811
    """Each server of a program starts the library in a process, and ends it."""
    (tmp_path / "models/echo/1").mkdir(parents=True)
    (tmp_path / "models/echo/config.pbtxt").write_text("""backend: "identity" response_cache { enable: true }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1, 16 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1, 16 ] }
""")
    package = {"PYTHONPATH": str(ROOT / "app/library/python"), "NEREID_PROGRAM": str(BINARY),
               "NEREID_LIBRARY": str(ROOT / "build/bin/libtritonserver.so")}
    done = subprocess.run([sys.executable, "-c", SERVERS, tmp_path / "models", caches, str(CYCLES)],
                          capture_output=True, text=True, timeout=900, env={**os.environ, **package})
    assert done.returncode == 0, done.stderr[-4000:]
    before, after = json.loads(done.stdout.splitlines()[-1])
    print(f"{CYCLES} servers: {before}, then {after}")
    assert after["processes"] == before["processes"] == 0
    assert after["descriptors"] <= before["descriptors"] + 8
    assert after["KiB"] <= before["KiB"] + (16 << 10)
