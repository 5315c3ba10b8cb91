"""The HTTP and gRPC extensions with common clients: curl, requests, tritonclient, raw gRPC."""

import json
import shutil
import subprocess
import threading

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

from harness import BINARY, REFERENCE, Server, deviates

ours = pytest.mark.skipif(REFERENCE, reason="the reference, or this build of it, does not have it")


def url(server, path, address=None):
    return f"http://{address or server.http}{path}"


def plain_inputs(client):
    i = client.InferInput("INPUT0", [1, 16], "FP32")
    i.set_data_from_numpy(np.arange(16, dtype=np.float32).reshape(1, 16))
    return [i]


@pytest.fixture
def curl():
    if not shutil.which("curl"):
        pytest.skip("no curl on this machine")

    def run(*args):
        return subprocess.run(["curl", "-sS", *args], capture_output=True, text=True, timeout=60, check=True).stdout

    return run


def test_B011_generate_by_curl(server, curl):
    """The example of the extension's documentation."""
    out = curl("-X", "POST", url(server, "/v2/models/id_BYTES/generate"), "-d",
               '{"INPUT0": ["client input", "two"], "parameters": {"stream": false, "temperature": 0}}')
    got = json.loads(out)
    assert (got["OUTPUT0"], got["model_name"], got["model_version"]) == (["client input", "two"], "id_BYTES", "1")


def test_B011_B054_generate_by_requests(server):
    numbers = list(range(16))
    r = requests.post(url(server, "/v2/models/sums/generate"), json={"id": "42", "INPUT0": numbers, "INPUT1": numbers},
                      timeout=60)
    assert r.status_code == 200 and r.headers["Content-Type"].startswith("application/json")
    assert r.json() == {"id": "42", "OUTPUT0": [2 * n for n in numbers], "OUTPUT1": [0] * 16, "model_name": "sums",
                        "model_version": "1"}
    assert requests.post(url(server, "/v2/models/id_BYTES/generate"), json={"INPUT0": "one"},
                         timeout=60).json()["OUTPUT0"] == "one"
    r = requests.post(url(server, "/v2/models/sums/generate"), json={"INPUT0": [1, 2, 3], "INPUT1": numbers},
                      timeout=60)
    assert (r.status_code,
            r.json()["error"]) == (400, "The schema can not convert input 'INPUT0' to tensor with proper shape")


def events(response):
    """Yields the data of server-sent events as they arrive."""
    for line in response.iter_lines(decode_unicode=True):
        if line:
            assert line.startswith("data: ")
            yield json.loads(line[len("data: ") :])


def test_B012_generate_stream(server):
    body = {"IN": [1, 2, 3], "DELAY": [1, 1, 1], "WAIT": 1}
    with requests.post(url(server, "/v2/models/repeat/generate_stream"), json=body, stream=True, timeout=60) as r:
        assert r.status_code == 200 and r.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert [(e["OUT"], e["IDX"]) for e in events(r)] == [(1, 0), (2, 1), (3, 2)]
    with requests.post(url(server, "/v2/models/id_BYTES/generate_stream"), json={"INPUT0": "x"}, stream=True,
                       timeout=60) as r:
        assert [e["OUTPUT0"] for e in events(r)] == ["x"]


@ours
def test_B012_events_arrive_one_by_one(server):
    """The first event arrives long before the model sends the second."""
    body = {"IN": [1, 2], "DELAY": [0, 60000], "WAIT": 0}
    with requests.post(url(server, "/v2/models/repeat/generate_stream"), json=body, stream=True, timeout=60) as r:
        assert next(events(r))["OUT"] == 1
    # The client disconnected: the model is notified, and other clients are served.
    assert server.get("/v2/models/repeat/ready").status == 200


def test_B055_generate_with_many_responses(server):
    r = requests.post(url(server, "/v2/models/repeat/generate"), json={"IN": [1, 2], "DELAY": [0, 0], "WAIT": 0},
                      timeout=60)
    assert r.status_code == deviates(200, 400)
    assert r.json()["error"].startswith("generate expects model to produce exactly 1 response, use generate stream")
    r = requests.post(url(server, "/v2/models/repeat/generate"), json={"IN": 7, "DELAY": 0, "WAIT": 0}, timeout=60)
    assert (r.status_code, r.json()["OUT"]) == (200, 7)


@ours
def test_B012_events_of_infer(server):
    tensors = [("IN", "INT32", [4, 5]), ("DELAY", "UINT32", [0, 0]), ("WAIT", "UINT32", [0])]
    body = {"id": "e", "inputs": [{"name": n, "datatype": t, "shape": [len(d)], "data": d} for n, t, d in tensors]}
    with requests.post(url(server, "/v2/models/repeat/infer"), json=body, headers={"Accept": "text/event-stream"},
                       stream=True, timeout=60) as r:
        got = list(events(r))
    answers = [(e["id"], {o["name"]: o["data"] for o in e["outputs"]}) for e in got]
    assert answers == [("e", {"OUT": [4], "IDX": [0]}), ("e", {"OUT": [5], "IDX": [1]})]
    assert requests.post(url(server, "/v2/models/repeat/infer"), json=body, timeout=60).status_code == 501


@ours
def test_B004_list_of_models(server):
    assert requests.get(url(server, "/v2/models"), timeout=60).json() == server.post("/v2/repository/index", b"").json


@pytest.fixture(scope="module")
def guarded(good, tmp_path_factory):
    """A server with restricted groups on both protocols, forwarded headers, and other optional features."""
    options = [
        "--http-restricted-api=model-repository,statistics:admin-key=secret",
        "--grpc-restricted-protocol=model-repository,statistics:admin-key=secret",
        "--http-header-forward-pattern=my_.*|priority",
        "--grpc-header-forward-pattern=my_.*|priority",
        "--grpc-infer-response-compression-level=high",
    ]
    if not REFERENCE:
        options += ["--http-allowed-origins=https://app.example", "--grpc-reflection=true", "--allow-kserve-v1=true"]
    with Server(good, tmp_path_factory.mktemp("guarded"), *options) as s:
        yield s


def test_B079_restricted_over_http(guarded):
    with th.InferenceServerClient(guarded.http) as c:
        assert c.is_server_ready()
        with pytest.raises(InferenceServerException, match="This API is restricted, expecting header 'admin-key'"):
            c.get_model_repository_index()
        with pytest.raises(InferenceServerException, match="restricted"):
            c.get_inference_statistics(headers={"admin-key": "Secret"})
        assert c.get_model_repository_index(headers={"admin-key": "secret"})
    assert guarded.post("/v2/repository/index", b"").status == 403


def test_B079_restricted_over_grpc(guarded):
    with tg.InferenceServerClient(guarded.grpc) as c:
        assert c.is_server_ready()
        with pytest.raises(InferenceServerException,
                           match="This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'") as e:
            c.get_model_repository_index()
        assert e.value.status() == "StatusCode.UNAVAILABLE"
        assert c.get_model_repository_index(headers={"triton-grpc-protocol-admin-key": "secret"}).models


def test_B079_an_invalid_rule_stops_the_start(good, tmp_path):
    s = Server(good, tmp_path, "--http-restricted-api=no-such-group:k=v", wait=None)
    with pytest.raises(AssertionError, match="the server exited with"):
        s.start()
    assert "unknown restricted" in s.log()


def test_B040_I017_reserved_header_is_not_forwarded(guarded):
    with th.InferenceServerClient(guarded.http) as c:
        c.infer("plain", plain_inputs(th), headers={"my_header": "1"})
        if REFERENCE:
            pytest.skip("2.51 forwards reserved names too")
        with pytest.raises(InferenceServerException,
                           match="Header 'priority' is reserved for Triton usage and cannot be forwarded."):
            c.infer("plain", plain_inputs(th), headers={"priority": "1"})


def test_B076_I017_reserved_metadata_is_not_forwarded(guarded):
    with tg.InferenceServerClient(guarded.grpc) as c:
        c.infer("plain", plain_inputs(tg), headers={"my_header": "1"})
        if REFERENCE:
            pytest.skip("2.51 forwards reserved names too")
        with pytest.raises(InferenceServerException,
                           match="Header 'priority' is reserved for Triton usage and cannot be forwarded."):
            c.infer("plain", plain_inputs(tg), headers={"priority": "1"})


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_B073_compression(guarded, algorithm):
    with tg.InferenceServerClient(guarded.grpc) as c:
        r = c.infer("plain", plain_inputs(tg), compression_algorithm=algorithm)
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), np.arange(16, dtype=np.float32).reshape(1, 16))


@ours
def test_B042_cors(guarded):
    path, origin = url(guarded, "/v2/models/plain/infer"), {"Origin": "https://app.example"}
    asks = {"Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,inference-header-content-length"}
    r = requests.options(path, headers=origin | asks, timeout=60)
    assert r.status_code == 204 and r.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "inference-header-content-length" in r.headers["Access-Control-Allow-Headers"]
    r = requests.options(path, headers={"Origin": "https://evil.example"} | asks, timeout=60)
    assert r.status_code == 405 and not [h for h in r.headers if h.lower().startswith("access-control")]
    r = requests.get(url(guarded, "/v2"), headers=origin, timeout=60)
    assert "Inference-Header-Content-Length" in r.headers["Access-Control-Expose-Headers"]


@ours
def test_B069_reflection(guarded, server):
    def ask(address):
        with grpc.insecure_channel(address) as channel:
            call = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
            return next(iter(call(iter([b"\x3a\x01*"]))))  # list_services

    assert b"inference.GRPCInferenceService" in ask(guarded.grpc)
    with pytest.raises(grpc.RpcError) as e:
        ask(server.grpc)
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


@ours
def test_B089_kserve_v1(guarded):
    numbers = list(range(16))
    row = {"INPUT0": numbers, "INPUT1": numbers}
    r = requests.post(url(guarded, "/v1/models/sums:predict"), json={"instances": [row, row]}, timeout=60)
    assert r.json() == {"predictions": [{"OUTPUT0": [2 * n for n in numbers], "OUTPUT1": [0] * 16}] * 2}
    r = requests.post(url(guarded, "/v1/models/batched/versions/1:predict"), json={"instances": [numbers]}, timeout=60)
    assert r.json() == {"predictions": [[float(n) for n in numbers]]}
    r = requests.post(url(guarded, "/v1/models/id_BYTES:predict"), json={"inputs": [{"b64": "aGk="}, "there"]},
                      timeout=60)
    assert r.json() == {"outputs": ["hi", "there"]}
    r = requests.get(url(guarded, "/v1/models/sums"), timeout=60)
    assert r.json()["ready"] and r.json()["model_version_status"][0]["state"] == "AVAILABLE"
    assert requests.post(url(guarded, "/v1/models/nope:predict"), json={"instances": []}, timeout=60).status_code == 404


@ours
def test_B083_sagemaker(good, tmp_path):
    command = ["env", "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=plain", BINARY, "serve"]
    with Server(good, tmp_path, "--allow-sagemaker=true", "--sagemaker-port=0", command=command) as s:
        address = s._address("Started Sagemaker HTTPService at ")
        assert requests.get(url(s, "/ping", address), timeout=60).status_code == 200
        body, size = th.InferenceServerClient.generate_request_body(plain_inputs(th))
        kind = "application/vnd.sagemaker-triton.binary+json;json-header-size="
        r = requests.post(url(s, "/invocations", address), data=body, headers={"Content-Type": f"{kind}{size}"},
                          timeout=60)
        assert r.status_code == 200 and r.headers["Content-Type"].startswith(kind), r.text
        got = th.InferenceServerClient.parse_response_body(r.content,
                                                           header_length=int(r.headers["Content-Type"][len(kind) :]))
        np.testing.assert_array_equal(got.as_numpy("OUTPUT0"), np.arange(16, dtype=np.float32).reshape(1, 16))
        assert requests.get(url(s, "/v2", address), timeout=60).status_code == 400


@ours
def test_B084_H060_vertex_ai(good, tmp_path):
    env = ["AIP_MODE=PREDICTION", "AIP_HTTP_PORT=0", "AIP_PREDICT_ROUTE=/v1/endpoints/1:predict",
           "AIP_HEALTH_ROUTE=/v1/endpoints/1"]
    command = ["env", *env, BINARY, "serve"]
    # Vertex AI mode turns HTTP off by default; the harness needs it.
    with Server(good, tmp_path, "--allow-http=true", "--allow-grpc=true", "--vertex-ai-default-model=plain",
                command=command) as s:
        address = s._address("Started Vertex AI HTTPService at ")
        assert requests.get(url(s, "/v1/endpoints/1", address), timeout=60).status_code == 200
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": list(range(16))}]}
        predict = url(s, "/v1/endpoints/1:predict", address)
        assert requests.post(predict, json=body, timeout=60).json()["outputs"][0]["data"] == list(range(16))
        redirect = {"X-Vertex-Ai-Triton-Redirect": "v2/models/plain/config"}
        assert requests.post(predict, headers=redirect, timeout=60).json()["name"] == "plain"
        redirect = {"X-Vertex-Ai-Triton-Redirect": "v2/repository/models/plain/unload"}
        assert requests.post(predict, headers=redirect, timeout=60).status_code == 403


@ours
def test_B077_graceful_shutdown(good, tmp_path):
    """A call that runs at shutdown gets its answers. The next call is refused."""
    with Server(good, tmp_path) as s, tg.InferenceServerClient(s.grpc) as c:
        first, rest = threading.Event(), []

        def take(result, error):
            rest.append(error or int(result.as_numpy("OUT")[0]))
            first.set()

        inputs = []
        for name, kind, data in (("IN", "INT32", [1, 2]), ("DELAY", "UINT32", [0, 1500]), ("WAIT", "UINT32", [0])):
            i = tg.InferInput(name, [len(data)], kind)
            i.set_data_from_numpy(np.array(data, np.int32 if kind == "INT32" else np.uint32))
            inputs.append(i)
        c.start_stream(take)
        c.async_stream_infer("repeat", inputs)
        assert first.wait(30)
        assert s.stop() == 0
        c.stop_stream()
        assert rest[:2] == [1, 2], rest
        with pytest.raises(InferenceServerException) as e:
            c.is_server_live()
        assert e.value.status() == "StatusCode.UNAVAILABLE"
