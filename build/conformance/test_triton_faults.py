"""Backend libraries that throw, hang and waste: their process dies alone, and nothing is left of it."""

import http.client
import json
import os
import pathlib

import pytest

from harness import REFERENCE, SANITIZED, Server, until
from test_triton_backends import infer, library, model, throwing_library

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

# The memory of the address sanitizer counts as the process's.
LIMIT = () if SANITIZED else ("--backend-config=wastes_test,memory-limit-byte-size=536870912",)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("identity_test", backends / "identity_test")
    library("wastes_test", backends / "wastes_test", "-pthread")
    throwing_library(backends)
    model(models, "plain", "identity_test")
    model(models, "throws", "throws_test")
    model(models, "throws_at_once", "throws_test")
    model(models, "wastes", "wastes_test")
    with Server(models, folder, f"--backend-directory={backends}", "--model-control-mode=explicit", "--load-model=*",
                "--exit-on-error=false", "--backend-config=wastes_test,abandoned-timeout-seconds=1", *LIMIT,
                wait="live") as s:
        until(lambda: all(state != "LOADING" for state, _ in s.index().values()), 60, "models load", s.log)
        yield s


def ready(server, name):
    until(lambda: server.get(f"/v2/models/{name}/ready").status == 200, 60, f"{name} is not ready", server.log)


@pytest.mark.parametrize("cause, text", [(1, "thrown in the execution"), (2, "thrown on a thread")])
def test_D076_an_exception_ends_only_its_own_process(server, cause, text):
    ready(server, "throws")
    answer = infer(server, "throws", [cause])
    assert answer.status == 503 and "signal 6" in answer.error, answer.body
    assert infer(server, "plain", [3]).json["outputs"][0]["data"] == [3]
    until(lambda: text in server.log(), 30, "the exception is not in the log", server.log)
    ready(server, "throws")
    assert infer(server, "throws", [5]).json["outputs"][0]["data"] == [5]


def test_D076_an_exception_while_a_model_loads_is_the_reason(server):
    assert "thrown while it initializes" in server.index()["throws_at_once", "1"][1]


@pytest.mark.parametrize("what, says", [(1, "an execution without end begins"), (4, "a request is kept")])
def test_D076_an_execution_that_does_not_end_is_ended_when_its_client_has_left(server, what, says):
    """One without end, and one whose request is answered and not released."""
    ready(server, "wastes")
    connection = http.client.HTTPConnection(*server.http.split(":"), timeout=60)
    connection.request("POST", "/v2/models/wastes/infer", json.dumps(
        {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [what]}]}))
    before = processes(server)
    until(lambda: says in server.log(), 30, "it has not begun", server.log)
    assert infer(server, "plain", [3]).status == 200
    connection.close()
    until(lambda: processes(server) != before, 60, "the process goes on", server.log)
    ready(server, "wastes")
    assert infer(server, "wastes", [0]).status == 200


def test_D076_an_execution_sees_that_its_request_is_cancelled(server):
    ready(server, "wastes")
    before = processes(server)
    connection = http.client.HTTPConnection(*server.http.split(":"), timeout=60)
    connection.request("POST", "/v2/models/wastes/infer", json.dumps(
        {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [5]}]}))
    until(lambda: "a request waits to be cancelled" in server.log(), 30, "it has not begun", server.log)
    connection.close()
    until(lambda: "the request was cancelled" in server.log(), 30, "it is not cancelled", server.log)
    assert infer(server, "wastes", [0]).status == 200 and processes(server) == before


@pytest.mark.skipif(SANITIZED, reason="the process has no limit of memory")
def test_D076_a_library_that_takes_all_memory_ends(server):
    ready(server, "wastes")
    assert infer(server, "wastes", [2]).status == 503
    assert infer(server, "plain", [3]).status == 200
    ready(server, "wastes")
    assert infer(server, "wastes", [0]).status == 200


def test_D076_what_a_library_keeps_is_gone_after_it_is_unloaded(server):
    ready(server, "wastes")

    def cycle():
        assert server.post("/v2/repository/models/wastes/load").status == 200
        assert infer(server, "wastes", [3]).status == 200
        assert server.post("/v2/repository/models/wastes/unload").status == 200
        until(lambda: server.state("wastes") == "UNAVAILABLE", 60, "not unloaded", server.log)

    cycle()
    others = {"plain", "throws"}
    until(lambda: len(processes(server)) == len(others), 60, "processes are left", server.log)
    descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    for _ in range(10):
        cycle()
    until(lambda: len(processes(server)) == len(others)
          and len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors + 2, 60,
          "processes or descriptors are left", server.log)
    assert infer(server, "plain", [3]).status == 200


def processes(server):
    """The process IDs of the processes with backend libraries."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    children = {child for t in tasks for child in (t / "children").read_text().split()}
    return {c for c in children if b"\0triton\0" in pathlib.Path(f"/proc/{c}/cmdline").read_bytes()}

