"""Explicit control mode: load and unload, their errors, and configuration overrides."""

import concurrent.futures
import json

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, Server, deviates, until

POLL_FAILED = "failed to load '{}', failed to poll from model repository"


def load(server, name, value=None):
    return server.post(f"/v2/repository/models/{name}/load", value)


def unload(server, name, value=None):
    return server.post(f"/v2/repository/models/{name}/unload", value)


def unavailable(server, name):
    until(lambda: server.state(name) == "UNAVAILABLE", 60, f"{name} is not UNAVAILABLE", server.log)


def test_A053_A064_A067_A068_load_and_unload(explicit):
    assert explicit.index(ready=True) == {}
    assert ("sums", "") in explicit.index()
    for _ in range(2):  # the second unload has no effect
        a = load(explicit, "sums")
        assert (a.status, a.body) == (200, b"")
    assert explicit.get("/v2/models/sums/ready").status == 200
    assert explicit.index(ready=True) == {("sums", "1"): ("READY", "")}
    a = unload(explicit, "sums")
    assert (a.status, a.body) == (200, b"")
    assert explicit.get("/v2/models/sums/ready").status == 400
    unavailable(explicit, "sums")
    assert explicit.index()[("sums", "1")] == ("UNAVAILABLE", "unloaded")
    a = explicit.get("/v2/models/sums")
    assert (a.status, a.error) == (404, "Request for unknown model: 'sums' has no available versions")
    assert unload(explicit, "sums", {"parameters": {"unload_dependents": True}}).status == 200
    assert explicit.get("/v2/health/ready").status == 200
    assert load(explicit, "sums", {}).status == 200
    assert explicit.state("sums") == "READY"


def test_A064_a_request_that_waits_for_its_batch_is_answered_though_its_model_is_unloaded(tmp_path):
    """As in Triton it waits for its queue delay, and the unload waits for it."""
    folder = tmp_path / "models/m"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        'backend: "python" max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 3000000 '
        'preferred_batch_size: [ 8 ] } input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } '
        'output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }')
    (folder / "1/model.py").write_text("""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
""")
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [7]}]}
    with Server(folder.parent, tmp_path, "--model-control-mode=explicit", "--load-model=m") as server:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(server.post, "/v2/models/m/infer", body)
            until(lambda: b'nv_inference_pending_request_count{model="m",version="1"} 1' in server.request(
                "GET", "/metrics", address=server.metrics).body, 30, "the request does not wait", server.log)
            assert unload(server, "m").status == 200
            answer = waiting.result(60)
        assert answer.status == 200 and answer.json["outputs"][0]["data"] == [7], answer.body
        unavailable(server, "m")


def test_A064_load_and_unload_by_the_real_clients(explicit):
    with th.InferenceServerClient(explicit.http) as h, tg.InferenceServerClient(explicit.grpc) as g:
        h.load_model("plain")
        assert g.is_model_ready("plain")
        g.unload_model("plain")
        unavailable(explicit, "plain")
        assert not h.is_model_ready("plain")
        g.load_model("plain")
        h.unload_model("plain")
        unavailable(explicit, "plain")
        for c in (h, g):
            with pytest.raises(InferenceServerException,
                               match="failed to load 'nope', failed to poll from model repository"):
                c.load_model("nope")


def test_A064_unknown_models(explicit):
    a = load(explicit, "nope")
    assert a.status == 500 and a.error.startswith(POLL_FAILED.format("nope"))
    a = unload(explicit, "nope")
    assert (a.status, a.body) == (200, b"")


@pytest.mark.parametrize("name", ["bad_field", "bad_name"])
def test_A007_A025_invalid_configurations_are_refused(explicit, name):
    a = load(explicit, name)
    assert a.status == 500 and a.error.startswith(POLL_FAILED.format(name))
    assert explicit.get("/v2/health/live").status == 200


@pytest.mark.parametrize(
    "name, text",
    [
        ("bad_backend",
         "version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library for backend 'nosuch'"),
        ("bad_noversion", "at least one version must be available under the version policy of model 'bad_noversion'"),
    ]
    + ([] if REFERENCE else [("bad_nofile", "model.onnx"), ("bad_onnx", "model.onnx")]),
)
def test_A077_failed_loads(explicit, name, text):
    a = load(explicit, name)
    assert a.status == 400 and a.error.startswith(f"load failed for model '{name}': ") and text in a.error
    if name != "bad_noversion":
        state, reason = explicit.index()[(name, "1")]
        assert state == "UNAVAILABLE" and reason
    assert load(explicit, "sums").status == 200  # one bad model does not stop the others
    assert explicit.get("/v2/health/ready").status == 400


def test_A063_a_failed_reload_keeps_the_old_version_serving(explicit):
    assert load(explicit, "plain").status == 200
    config = explicit.repositories[0] / "plain/config.pbtxt"
    good = config.read_text()
    config.write_text(good.replace("dims: [ 16 ]", "dims: [ 17 ]") if not REFERENCE else good + "nosuch: 1\n")
    assert load(explicit, "plain").status in (400, 500)
    assert explicit.state("plain") == "READY"
    x = np.ones([1, 16], np.float32)
    with th.InferenceServerClient(explicit.http) as c:
        i = th.InferInput("INPUT0", x.shape, "FP32")
        i.set_data_from_numpy(x)
        np.testing.assert_array_equal(c.infer("plain", [i]).as_numpy("OUTPUT0"), x)
    config.write_text(good.replace("max_batch_size: 8", "max_batch_size: 4"))
    assert load(explicit, "plain").status == 200
    assert explicit.get("/v2/models/plain/config").json["max_batch_size"] == 4


def test_A065_load_with_a_configuration(explicit):
    assert load(explicit, "versions").status == 200
    config = explicit.get("/v2/models/versions/config").json
    config["version_policy"] = {"specific": {"versions": [1]}}
    config["max_batch_size"] = 2
    assert load(explicit, "versions", {"parameters": {"config": json.dumps(config)}}).status == 200
    assert explicit.get("/v2/models/versions").json["versions"] == ["1"]
    assert explicit.get("/v2/models/versions/config").json["max_batch_size"] == 2
    for body, status, text in (
        ({"parameters": {"config": "{bad"}}, 500, "failed to load 'versions', failed to poll from model repository"),
        ({"parameters": {"config": 5}}, deviates(500, 400), "attempt to access JSON non-string as string"),
        ({"parameters": {"nosuch": "x"}}, deviates(500, 400), "unexpected error on creating Triton parameter"),
        (b"{bad", deviates(500, 400), "failed to parse the request JSON buffer"),
    ):
        a = load(explicit, "versions", body)
        assert a.status == status and a.error.startswith(text) if status == 500 else a.status == status, (body, a)
    assert explicit.get("/v2/models/versions").json["versions"] == ["1"]


def test_B064_load_and_unload_over_grpc(explicit):
    with grpc.insecure_channel(explicit.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="sums"))
        assert explicit.state("sums") == "READY"
        with pytest.raises(grpc.RpcError) as e:
            stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="bad_backend"))
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert e.value.details().startswith("load failed for model 'bad_backend': version 1 is at UNAVAILABLE state: ")
        with pytest.raises(grpc.RpcError) as e:
            stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="nope"))
        assert e.value.code() == grpc.StatusCode.INTERNAL and e.value.details().startswith(POLL_FAILED.format("nope"))
        stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="sums"))
        unavailable(explicit, "sums")


def test_A054_load_model_at_the_start(good, tmp_path):
    with Server(good, tmp_path, "--model-control-mode=explicit", "--load-model=sums", "--load-model=plain") as s:
        assert set(s.index(ready=True)) == {("sums", "1"), ("plain", "1")}


def test_A054_load_model_star(good, tmp_path):
    with Server(good, tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        assert {n for n, _ in s.index(ready=True)} == {p.name for p in good.iterdir()}


def test_A003_two_repositories(good, tmp_path):
    import models

    other = tmp_path / "other"
    models.write_identity(other, "elsewhere")
    models.write_sums(other, "sums")  # in both repositories, so neither is loaded
    with Server([good, other], tmp_path, "--exit-on-error=false", wait="live") as s:
        assert s.state("elsewhere") == "READY" and s.state("plain") == "READY"
        assert s.get("/v2/models/sums/ready").status == 400
