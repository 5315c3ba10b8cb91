"""nereid.tritonfrontend: front ends that a Python program opens for a server that runs in it."""

import json
import os
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, free_port
from test_wheel import models, python  # noqa: F401: fixtures

pytestmark = pytest.mark.skipif(REFERENCE, reason="the tests are of our package")

# It opens the front ends, HTTP on loopback and gRPC on all addresses, and closes them when it reads a line.
PROGRAM = """
import json, sys, urllib.error, urllib.request
import nereid.tritonserver as tritonserver
from nereid.tritonfrontend import FeatureGroup, KServeGrpc, KServeHttp, Metrics, Protocols, RestrictedFeatures

folder, (http, grpc, metrics) = sys.argv[1], map(int, sys.argv[2:])
out, local = {}, "127.0.0.1"

def refused(f):
    try:
        f()
    except tritonserver.TritonError as e:
        return [type(e).__name__, str(e)]

def status(port, path="/v2/health/ready"):
    try:
        return urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=60).status
    except urllib.error.HTTPError as e:
        return e.code
    except urllib.error.URLError as e:
        return type(e.reason).__name__

server = tritonserver.Server(model_repository=folder, model_control_mode=tritonserver.ModelControlMode.EXPLICIT,
                             startup_models=["builtin_identity"]).start(wait_until_ready=True)
family = tritonserver.MetricFamily(tritonserver.MetricKind.COUNTER, "own_total", "what the program counts")
metric = tritonserver.Metric(family, {"kind": "own"})
metric.increment(2.5)
out["metric"] = [metric.value, metric.kind.name, 'own_total{kind="own"} 2.5' in server.metrics().splitlines()]
gauge = tritonserver.Metric(tritonserver.MetricFamily(tritonserver.MetricKind.GAUGE, "own_now", "text"))
gauge.set_value(7)
out["gauge"], out["counter"] = gauge.value, refused(lambda: metric.set_value(1))

out["before"] = status(http)
secret = RestrictedFeatures([FeatureGroup("key", "word", [Protocols.MODEL_REPOSITORY])])
out["twice"] = refused(lambda: secret.create_feature_group("k", "v", [Protocols.MODEL_REPOSITORY]))
out["no port"] = refused(lambda: KServeHttp.Options(port=70000))
out["type"] = refused(lambda: KServeHttp(server, KServeGrpc.Options()))
with KServeHttp.Server(server, KServeHttp.Options(address=local, port=http, restricted_protocols=secret)) as front:
    out["open"] = status(http)
    out["again"], out["taken"] = refused(front.start), refused(KServeHttp(server, KServeHttp.Options(
        address=local, port=http)).start)
    calls = KServeGrpc.Server(server, KServeGrpc.Options(port=grpc, infer_compression_level=2))
    calls.start()
    text = Metrics(server, Metrics.Options(address=local, port=metrics))
    with text:
        body = urllib.request.urlopen("http://127.0.0.1:%d/metrics" % metrics, timeout=60).read().decode()
        out["metrics"] = ["nv_inference_count" in body, 'own_total{kind="own"} 2.5' in body]
        print("open", flush=True)
        sys.stdin.readline()
out["closed"] = [status(http), status(metrics, "/metrics")]
front.start()
out["reopened"] = status(http)
server.stop()  # closes what is open
out["stopped"], out["late"] = status(http), refused(KServeHttp(server).start)
front.stop()
calls.stop()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def said(python, models):  # noqa: F811
    http, grpc, metrics = free_port(), free_port(), free_port()
    program = subprocess.Popen([python, "-c", PROGRAM, str(models), str(http), str(grpc), str(metrics)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"PATH": os.environ["PATH"], "HOME": str(python.parent)})
    seen = {}
    try:
        if program.stdout.readline() == "open\n":
            seen = look(http, grpc)
        printed, errors = program.communicate("close\n", timeout=60)
    finally:
        program.kill()
    assert program.returncode == 0, errors[-6000:]
    return {**seen, **json.loads(printed.splitlines()[-1])}


def look(http, grpc):
    """Returns what clients see."""
    seen, x = {}, np.arange(16, dtype=np.float32).reshape(1, 16)
    for name, kind, port in ("http", httpclient, http), ("grpc", grpcclient, grpc):
        with kind.InferenceServerClient("127.0.0.1:%d" % port) as client:
            put = kind.InferInput("INPUT0", [1, 16], "FP32")
            put.set_data_from_numpy(x)
            seen[name] = client.infer("builtin_identity", [put]).as_numpy("OUTPUT0").tolist() == x.tolist()
    seen["shared"] = {}
    region = shm.create_shared_memory_region("r", "/frontend%d" % http, 64)
    try:
        for name, kind, port in ("http", httpclient, http), ("grpc", grpcclient, grpc):
            with kind.InferenceServerClient("127.0.0.1:%d" % port) as client:
                try:
                    client.register_system_shared_memory("r", "/frontend%d" % http, 64)
                    seen["shared"][name] = True
                except InferenceServerException:
                    seen["shared"][name] = False
    finally:
        shm.destroy_shared_memory_region(region)
    with httpclient.InferenceServerClient("127.0.0.1:%d" % http) as client:
        with pytest.raises(InferenceServerException) as refused:
            client.get_model_repository_index()
        seen["restricted"] = str(refused.value)
        seen["with the key"] = len(client.get_model_repository_index(headers={"key": "word"})) > 0
    return seen


def test_B086_front_ends_serve_a_running_server(said):
    assert said["before"] == "ConnectionRefusedError"
    assert said["open"] == 200 and said["http"] and said["grpc"]
    assert said["metrics"] == [True, True]
    assert said["closed"] == 2 * ["ConnectionRefusedError"]
    assert said["reopened"] == 200


def test_B086_a_stopped_server_closes_its_front_ends(said):
    assert said["stopped"] == "ConnectionRefusedError"
    assert said["late"] == ["InvalidArgumentError", "Server not started"]


def test_B086_restricted_features_need_their_key(said):
    assert "403" in said["restricted"] and said["with the key"]
    assert said["twice"][0] == "InvalidArgumentError" and "model-repository" in said["twice"][1]


def test_B086_other_machines_register_no_shared_memory(said):
    assert said["shared"] == {"http": True, "grpc": False}


def test_B086_wrong_options_are_errors(said):
    assert said["no port"] == ["InvalidArgumentError", "a port is from 0 to 65535, got: 70000"]
    assert said["type"][0] == "InvalidArgumentError" and "KServeHttp.Options" in said["type"][1]
    assert said["again"] == ["AlreadyExistsError", "the front end is running"]
    assert said["taken"][0] == "InvalidArgumentError" and "in use" in said["taken"][1]


def test_B087_metrics_of_the_program(said):
    assert said["metric"] == [2.5, "COUNTER", True] and said["gauge"] == 7
    assert said["counter"][0] == "UnsupportedError"
