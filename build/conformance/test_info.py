"""Health, metadata, configuration, statistics and the repository index, over HTTP and gRPC."""

import json
import os

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

import models
from harness import BINARY, REFERENCE, Server, deviates

EXTENSIONS = [
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "sequence",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
]
EXTENSIONS += deviates(["cuda_shared_memory"], [])  # DV54


@pytest.fixture
def http_client(server):
    with th.InferenceServerClient(server.http) as c:
        yield c


@pytest.fixture
def grpc_client(server):
    with tg.InferenceServerClient(server.grpc) as c:
        yield c


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def test_B001_B002_health_over_http(server, http_client):
    assert http_client.is_server_live() and http_client.is_server_ready()
    for path in ("/v2/health/live", "/v2/health/ready"):
        a = server.get(path)
        assert (a.status, a.body) == (200, b""), path


def test_B003_model_ready_over_http(server, http_client):
    assert http_client.is_model_ready("sums") and http_client.is_model_ready("versions", "5")
    for path in ("sums/versions/9", "nope"):
        a = server.get(f"/v2/models/{path}/ready")
        assert (a.status, a.error) == (400, "Model version not ready"), path


def test_B005_server_metadata_over_http(http_client):
    m = http_client.get_server_metadata()
    assert m["name"] == "triton" and m["version"] == "2.51.0"
    missing = [e for e in EXTENSIONS if e not in m["extensions"]]
    assert not missing


def test_B007_model_metadata_over_http(server, http_client):
    want = {
        "name": "sums",
        "versions": ["1"],
        "inputs": [{"name": n, "datatype": "INT32", "shape": [-1, 16]} for n in ("INPUT0", "INPUT1")],
        "outputs": [{"name": n, "datatype": "INT32", "shape": [-1, 16]} for n in ("OUTPUT0", "OUTPUT1")],
    }
    want["platform"] = "python" if REFERENCE else "onnxruntime_onnx"
    assert http_client.get_model_metadata("sums") == want
    assert server.get("/v2/models/sums/versions/1").json == want
    assert http_client.get_model_metadata("versions")["versions"] == ["2", "5"]


def test_B008_model_config_over_http(http_client):
    c = http_client.get_model_config("batched")
    assert c["max_batch_size"] == 8
    assert c["dynamic_batching"]["preferred_batch_size"] == [4, 8]
    assert c["dynamic_batching"]["max_queue_delay_microseconds"] == 100
    assert c["version_policy"] == {"latest": {"num_versions": 1}}
    assert c["input"] == [
        {
            "name": "INPUT0",
            "data_type": "TYPE_FP32",
            "format": "FORMAT_NONE",
            "dims": [16],
            "is_shape_tensor": False,
            "allow_ragged_batch": False,
            "optional": False,
            "is_non_linear_format_io": False,
        }
    ]
    assert c["output"][0]["dims"] == [16] and c["output"][0]["label_filename"] == ""
    assert c["optimization"]["priority"] == "PRIORITY_DEFAULT"
    assert c["default_model_filename"] == ("model.py" if REFERENCE else "model.onnx")
    assert c["instance_group"][0]["kind"] == "KIND_CPU" and c["instance_group"][0]["gpus"] == []
    assert c["parameters"] == {} and c["model_warmup"] == [] and c["batch_input"] == []


def test_A050_requests_without_a_version_go_to_the_latest(server):
    a = server.post("/v2/models/versions/infer",
                    {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]})
    assert a.json["model_version"] == "5"


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("nope", 404, "Request for unknown model: 'nope' is not found"),
        ("sums/versions/9", 404, "Request for unknown model: 'sums' version 9 is not found"),
        ("nope/config", 404, "Request for unknown model: 'nope' is not found"),
        ("sums/versions/9/config", 404, "Request for unknown model: 'sums' version 9 is not found"),
        ("nope/stats", 400, "requested model 'nope' is not available"),
        ("sums/versions/9/stats", 400, "requested model version is not available for model 'sums'"),
        ("sums/versions/abc", 404, "Not Found"),
        ("sums/nosuch", 404, "Not Found"),
        ("sums/", 404, "Not Found"),
        ("", 404, "Not Found"),
    ],
)
def test_B021_http_errors_of_information(server, path, status, text):
    a = server.get("/v2/models/" + path)
    assert (a.status, a.error) == (status, text)


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v2/health/ready"),
        ("POST", "/v2/models/sums"),
        ("DELETE", "/v2/models/sums"),
        ("GET", "/v2/models/sums/infer"),
        ("PUT", "/v2/models/sums/infer"),
        ("GET", "/v2/repository/index"),
        ("GET", "/v2/repository/models/sums/load"),
        ("OPTIONS", "/v2"),
    ],
)
def test_B020_wrong_method(server, method, path):
    a = server.request(method, path)
    assert (a.status, a.error) == (405, "Method Not Allowed")


@pytest.mark.parametrize("path", ["/", "/v2/", "/v2/nosuch", "/nosuch", "/v2/health", "/metrics"])
def test_B020_unknown_path(server, path):
    a = server.get(path)
    assert (a.status, a.error) == (404, "Not Found")


def test_B009_E031_E032_E033_statistics_count(good, tmp_path):
    with Server(good, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        before = c.get_inference_statistics("sums")["model_stats"][0]
        assert (before["inference_count"], before["execution_count"], before["last_inference"]) == (0, 0, 0)
        assert before["batch_stats"] == [] and before["inference_stats"]["success"] == {"count": 0, "ns": 0}
        for _ in range(3):
            infer_sums(c, rows=2)
        after = c.get_inference_statistics("sums", "1")["model_stats"][0]
        assert (after["name"], after["version"]) == ("sums", "1")
        assert (after["inference_count"], after["execution_count"]) == (6, 3)
        assert after["last_inference"] > 1_600_000_000_000
        stats = after["inference_stats"]
        for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
            assert stats[name]["count"] == 3, name
        assert stats["success"]["ns"] > 0 and stats["fail"]["count"] == 0
        assert stats["success"]["ns"] >= stats["queue"]["ns"] + stats["compute_infer"]["ns"]
        assert [(b["batch_size"], b["compute_infer"]["count"]) for b in after["batch_stats"]] == [(2, 3)]
        everything = {m["name"] for m in c.get_inference_statistics()["model_stats"]}
        assert {"sums", "plain", "versions", "repeat"} <= everything
        with tg.InferenceServerClient(s.grpc) as g:
            m = g.get_inference_statistics("sums").model_stats[0]
            assert (m.inference_count, m.execution_count, m.inference_stats.success.count) == (6, 3, 3)
            assert [(b.batch_size, b.compute_infer.count) for b in m.batch_stats] == [(2, 3)]
            assert len(g.get_inference_statistics().model_stats) == len(c.get_inference_statistics()["model_stats"])


def infer_sums(client, rows=1):
    a = np.arange(16 * rows, dtype=np.int32).reshape(rows, 16)
    inputs = [th.InferInput(n, a.shape, "INT32") for n in ("INPUT0", "INPUT1")]
    for i in inputs:
        i.set_data_from_numpy(a)
    r = client.infer("sums", inputs)
    np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), a + a)


def test_B057_health_over_grpc(grpc_client, stub):
    assert grpc_client.is_server_live() and grpc_client.is_server_ready()
    assert grpc_client.is_model_ready("sums") and grpc_client.is_model_ready("sums", "1")
    assert not grpc_client.is_model_ready("nope") and not grpc_client.is_model_ready("sums", "9")
    with pytest.raises(grpc.RpcError) as e:
        stub.ModelReady(pb.ModelReadyRequest(name="sums", version="abc"))
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "failed to get model version from specified version string 'abc'" in e.value.details()
    assert "version should be an integral value > 0" in e.value.details()


def test_B058_metadata_and_config_over_grpc(grpc_client):
    m = grpc_client.get_server_metadata()
    assert (m.name, m.version) == ("triton", "2.51.0")
    assert not [e for e in EXTENSIONS if e not in m.extensions]
    sums = grpc_client.get_model_metadata("sums")
    assert [(i.name, i.datatype, list(i.shape))
            for i in sums.inputs] == [(n, "INT32", [-1, 16]) for n in ("INPUT0", "INPUT1")]
    assert list(grpc_client.get_model_metadata("versions").versions) == ["2", "5"]
    c = grpc_client.get_model_config("batched").config
    assert (c.name, c.max_batch_size, list(c.dynamic_batching.preferred_batch_size)) == ("batched", 8, [4, 8])
    assert list(c.input[0].dims) == [16] and c.optimization.input_pinned_memory.enable


@pytest.mark.parametrize(
    "call, request_, code, text",
    [
        ("ModelMetadata", pb.ModelMetadataRequest(name="nope"), "NOT_FOUND",
         "Request for unknown model: 'nope' is not found"),
        (
            "ModelMetadata",
            pb.ModelMetadataRequest(name="sums", version="9"),
            "NOT_FOUND",
            "Request for unknown model: 'sums' version 9 is not found",
        ),
        ("ModelConfig", pb.ModelConfigRequest(name="nope"), "NOT_FOUND",
         "Request for unknown model: 'nope' is not found"),
        ("ModelStatistics", pb.ModelStatisticsRequest(name="nope"), "INVALID_ARGUMENT",
         "requested model 'nope' is not available"),
        (
            "RepositoryIndex",
            pb.RepositoryIndexRequest(repository_name="other"),
            "UNIMPLEMENTED",
            "'repository_name' specification is not supported",
        ),
        (
            "RepositoryModelLoad",
            pb.RepositoryModelLoadRequest(model_name="sums"),
            "UNAVAILABLE",
            "explicit model load / unload is not allowed if polling is enabled",
        ),
        (
            "RepositoryModelUnload",
            pb.RepositoryModelUnloadRequest(model_name="nope"),
            "UNAVAILABLE",
            "explicit model load / unload is not allowed if polling is enabled",
        ),
    ],
)
def test_B071_grpc_errors_of_information(stub, call, request_, code, text):
    with pytest.raises(grpc.RpcError) as e:
        getattr(stub, call)(request_)
    assert (e.value.code().name, e.value.details()) == (code, text)


def test_B068_grpc_health_service(server):
    with grpc.insecure_channel(server.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        for service in (b"", b"\x0a\x1einference.GRPCInferenceService", b"\x0a\x04nope"):
            assert check(service) == b"\x08\x01", service  # SERVING for every service name


def test_B068_grpc_health_service_when_not_ready(broken):
    with grpc.insecure_channel(broken.grpc) as channel:
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x02"


def test_B071_unknown_method(server):
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as e:
        channel.unary_unary("/inference.GRPCInferenceService/NoSuch")(b"")
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_B013_A077_index_over_http(server, http_client):
    index = http_client.get_model_repository_index()
    assert {"name": "sums", "version": "1", "state": "READY"} in index
    assert [(m["version"], m["state"]) for m in index if m["name"] == "versions"] == [("2", "READY"), ("5", "READY")]
    assert server.post("/v2/repository/index", b"").json == index
    assert [m["name"] for m in index] == sorted(m["name"] for m in index)


def test_B013_invalid_index_requests(server):
    a = server.post("/v2/repository/index", {"ready": 1})
    assert (a.status, a.error) == (deviates(500, 400), "attempt to access JSON non-boolean as boolean")
    a = server.post("/v2/repository/index", b"{bad")
    assert a.status == deviates(500, 400) and a.error.startswith("failed to parse the request JSON buffer")


def test_B064_index_over_grpc(grpc_client):
    index = grpc_client.get_model_repository_index().models
    assert [(m.version, m.state) for m in index if m.name == "versions"] == [("2", "READY"), ("5", "READY")]


def test_A051_load_is_refused_in_the_default_mode(server):
    for verb in ("load", "unload"):
        a = server.post(f"/v2/repository/models/sums/{verb}")
        assert (a.status, a.error) == (503, "explicit model load / unload is not allowed if polling is enabled")


def test_A074_A075_DV24_with_broken_models_the_server_is_live_but_not_ready(broken):
    assert broken.get("/v2/health/live").status == 200
    a = broken.get("/v2/health/ready")
    assert (a.status, a.body) == (400, b"")
    assert broken.state("sums") == "READY"
    index = broken.index()
    state, reason = index[("bad_backend", "1")]
    assert state == "UNAVAILABLE" and "unable to find backend library for backend 'nosuch'" in reason
    assert ("bad_empty", "") in index or ("bad_empty", "1") in index
    if not REFERENCE:
        assert "bad_nofile" in index[("bad_nofile", "1")][1]
        assert "bad_onnx" in index[("bad_onnx", "1")][1]


@pytest.mark.parametrize("by", ["option", "name"])
def test_A074_H010_DV27_exit_on_error(tmp_path, by):
    """The option works when given, and is the default under the name tritonserver."""
    repo = models.write_broken(tmp_path / "models")
    if by == "option" or REFERENCE:
        s = Server(repo, tmp_path, "--exit-on-error=true", wait=None)
    else:
        (tmp_path / "tritonserver").symlink_to(BINARY)
        addresses = [f"--{p}-address=127.0.0.1" for p in ("http", "grpc", "metrics")]
        s = Server(repo, tmp_path, *addresses, wait=None, command=[tmp_path / "tritonserver"])
    with pytest.raises(AssertionError, match="the server exited with 1"):
        s.start()
    s.stop()
    assert "failed to load all models" in s.log()


def test_numbers_in_json_are_numbers(http_client):
    raw = json.dumps(http_client.get_inference_statistics("sums"))
    assert '"inference_count": "' not in raw


def test_B021_unknown_model_by_the_real_client(http_client):
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'nope' is not found"):
        http_client.get_model_metadata("nope")


def test_DV54_extensions_that_depend_on_the_machine(http_client, grpc_client):
    """Device memory is offered where it can be opened, which needs a GPU. Triton always offers it."""
    gpu = os.path.exists("/dev/nvidiactl")
    for listed in http_client.get_server_metadata()["extensions"], grpc_client.get_server_metadata().extensions:
        assert ("cuda_shared_memory" in listed, "nereid" in listed) == deviates((True, False), (gpu, True)), listed
