"""More models than the memory budget allows, and loading a single version, with the running program."""

import concurrent.futures
import json
import random

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

import models
from harness import REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has neither")


def console(server, method, path, value=None):
    body = None if value is None else json.dumps(value).encode()
    headers = {"X-Nereid": "1", "Content-Type": "application/json"}
    answer = server.request(method, path, body, headers, server.ui_address)
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json


def infer(server, name, value):
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [value] * 16}]}
    answer = server.post(f"/v2/models/{name}/infer", body)
    assert answer.status == 200, (name, answer.body)
    assert answer.json["outputs"][0]["data"] == [value + 1] * 16
    assert answer.json["model_version"] == "1"


def start(repo, work, name, *options):
    """A server with a separate log file, so that a second server is not confused with the first."""
    s = Server(repo, work, *options)
    s.log_path = work / f"{name}.log"
    return s


def resident(server):
    return {m["name"] for m in console(server, "GET", "/api/models")["models"] if m["resident"]}


def test_twelve_models_over_a_budget_for_five(tmp_path):
    """Zipf traffic over HTTP and gRPC: no request fails, memory stays within the budget, and all models are READY."""
    repo = tmp_path / "models"
    names = [f"m{i}" for i in range(12)]
    for name in names:
        models.write_plus_version(repo, name)
    with Server(repo, tmp_path) as s:
        for name in names:
            infer(s, name, 1)  # a runtime allocates most of its memory with the first request
        sizes = [m["memoryBytes"] for m in console(s, "GET", "/api/models")["models"]]
        sources = {m["memorySource"] for m in console(s, "GET", "/api/models")["models"]}
    assert sources == {"allocator"} and min(sizes) > 0, (sources, sizes)
    budget = int(max(sizes) * 5.5)
    with start(repo, tmp_path, "budget", f"--model-memory-budget={budget}") as s:
        for name in names:
            infer(s, name, 1)
        until(lambda: len(resident(s)) <= 5, 60, "models that have grown do not leave")
        assert {state for state, _ in s.index().values()} == {"READY"}
        cold = next(n for n in names if n not in resident(s))
        assert "next request" in s.index()[(cold, "1")][1]
        assert s.get(f"/v2/models/{cold}/ready").status == 200
        assert s.get(f"/v2/models/{cold}").json["inputs"][0]["name"] == "INPUT0"
        assert s.get(f"/v2/models/{cold}/stats").status == 200
        assert cold not in resident(s), "a request for information loaded the model"
        console(s, "PUT", f"/api/models/{cold}/pin", {"pinned": True})
        infer(s, cold, 7)

        def client(seed):
            rng = random.Random(seed)
            weights = [1 / (i + 1) ** 1.2 for i in range(len(names))]
            for n, name in enumerate(rng.choices(names, weights, k=60)):
                infer(s, name, seed * 100 + n)

        def streaming(seed):
            with grpcclient.InferenceServerClient(s.grpc) as c:
                rng = random.Random(seed)
                for n in range(40):
                    x = grpcclient.InferInput("INPUT0", [1, 16], "FP32")
                    x.set_data_from_numpy(np.full((1, 16), n, np.float32))
                    got = c.infer(rng.choice(names), [x]).as_numpy("OUTPUT0")
                    assert (got == n + 1).all()

        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(client, i) for i in range(4)] + [pool.submit(streaming, i) for i in range(2)]:
                done.result()
        until(lambda: len(resident(s)) <= 5, 60, "models that have grown do not leave")
        now = resident(s)
        assert 4 <= len(now) <= 5 and cold in now, (now, cold)
        assert s.get("/v2/health/ready").status == 200


def test_pins_survive_a_restart(tmp_path):
    repo = tmp_path / "models"
    models.write_plus_version(repo, "kept")
    for pinned in (True, False):
        with start(repo, tmp_path, f"set{pinned}") as s:
            assert console(s, "PUT", "/api/models/kept/pin", {"pinned": pinned})["pinned"] == pinned
        with start(repo, tmp_path, f"look{pinned}") as s:
            assert console(s, "GET", "/api/models/kept")["pinned"] == pinned


@pytest.mark.parametrize("proto", ["http", "grpc"])
def test_A053_load_and_unload_of_a_single_version(tmp_path, proto):
    repo = tmp_path / "models"
    models.write_plus_version(repo, versions=(1, 2, 3))
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=plus_version") as s:

        def control(what, version):
            if proto == "http":
                return s.post(f"/v2/repository/models/plus_version/{what}", {"parameters": {"version": version}}).status
            stub = grpcclient.service_pb2_grpc.GRPCInferenceServiceStub(channel)
            kind = "RepositoryModelLoad" if what == "load" else "RepositoryModelUnload"
            request = getattr(grpcclient.service_pb2, kind + "Request")(model_name="plus_version")
            request.parameters["version"].int64_param = version
            getattr(stub, kind)(request)
            return 200

        import grpc

        channel = grpc.insecure_channel(s.grpc)
        serving = lambda: sorted(v for (_, v), (state, _) in s.index().items() if state == "READY")
        assert serving() == ["3"]
        assert control("load", 1) == 200
        assert serving() == ["1", "3"]
        assert control("unload", 3) == 200
        assert serving() == ["1"]
        infer(s, "plus_version", 4)
        assert control("load", 3) == 200
        assert serving() == ["1", "3"]
        assert s.post("/v2/repository/models/plus_version/load", {"parameters": {"version": 9}}).status != 200
        assert s.post("/v2/repository/models/plus_version/load").status == 200
        assert serving() == ["3"], "a load without a version must follow the version policy"
        sources = [r["source"] for r in console(s, "GET", "/api/models/plus_version/revisions")["revisions"]]
        assert sources == ["versions"] * 3
        channel.close()
