"""A backend library is loaded and unloaded many times. No process, descriptor, shared memory or memory is left."""

import os
import pathlib

import pytest

from harness import REFERENCE, SANITIZED, Server, until
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

CYCLES = 200


@pytest.fixture
def server(tmp_path):
    models, backends = tmp_path / "models", tmp_path / "backends"
    library("identity_test", backends / "identity_test")
    model(models, "plain", "identity_test")
    model(models, "batched", "identity_test", "max_batch_size: 8 dynamic_batching { }")
    with Server(models, tmp_path, f"--backend-directory={backends}", "--model-control-mode=explicit",
                "--load-model=*") as s:
        yield s


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


@pytest.mark.timeout(600)
def test_D076_nothing_is_left_of_200_loads(server):
    def cycle(name):
        assert server.post(f"/v2/repository/models/{name}/load").status == 200
        assert infer(server, name, [[1.0, 2.0]] if name == "batched" else [1.0, 2.0]).status == 200
        assert server.post(f"/v2/repository/models/{name}/unload").status == 200
        until(lambda: server.state(name) == "UNAVAILABLE", 30, f"{name} is not unloaded", server.log)

    for name in ("plain", "batched"):
        assert server.post(f"/v2/repository/models/{name}/unload").status == 200
    for _ in range(10):  # pools fill
        cycle("plain")
        cycle("batched")
    until(lambda: held(server)["processes"] == 0, 30, "processes are left", server.log)
    before = held(server)
    for _ in range(CYCLES // 2):
        cycle("plain")
        cycle("batched")
    until(lambda: held(server)["processes"] == 0, 30, "processes are left", server.log)
    after = held(server)
    print(f"{CYCLES} loads: {before}, then {after}")
    assert after["descriptors"] <= before["descriptors"] + 4, (before, after)
    assert after["shared KiB"] <= before["shared KiB"] + 1024, (before, after)
    if not SANITIZED:  # the address sanitizer keeps memory that was freed
        assert after["KiB"] <= before["KiB"] + (16 << 10), (before, after)
