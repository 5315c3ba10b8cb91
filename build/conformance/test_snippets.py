"""Published code snippets, unchanged except for addresses, files and a token."""

import shutil
import subprocess

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

import models
from harness import BINARY, REFERENCE, Server

TOKEN = "YjU2ZmM4ZWY0ZTg5"
GATEWAY = "1234567890.cn-hangzhou.example.com"  # the Host header that a gateway forwards

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no base path and no ONNX backend")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with an ONNX model named as in the published examples, below a gateway's path and host name."""
    work = tmp_path_factory.mktemp("snippets")
    repo = work / "models"
    i, o = [("INPUT__0", "FP32", [4])], [("OUTPUT__0", "FP32", [4])]
    nodes = [models.helper.make_node("Neg", ["INPUT__0"], ["OUTPUT__0"])]
    models.add_model(repo, "fc_model_pt", "max_batch_size: 128\n", i, o, nodes, "")
    models.write_cases(repo)
    options = ["--http-base-path=/api/predict/triton_service", f"--allowed-hosts={GATEWAY}"]
    with Server(repo, work, *options) as s:
        yield s


@pytest.fixture(scope="module")
def tokened(tmp_path_factory):
    """The same server, with a token from the environment."""
    work = tmp_path_factory.mktemp("tokened")
    repo = work / "models"
    i, o = [("INPUT__0", "FP32", [4])], [("OUTPUT__0", "FP32", [4])]
    models.add_model(repo, "fc_model_pt", "max_batch_size: 128\n", i, o,
                     [models.helper.make_node("Neg", ["INPUT__0"], ["OUTPUT__0"])], "")
    options = ["--http-base-path=/api/predict/triton_service", f"--allowed-hosts={GATEWAY}"]
    with Server(repo, work, *options, command=["env", f"NEREID_TOKEN={TOKEN}", BINARY, "serve"], token=TOKEN) as s:
        yield s


class Header(httpclient.InferenceServerClientPlugin):
    """A client plugin that adds a header, as applications define it."""

    def __init__(self, value):
        self.value = value

    def __call__(self, request):
        request.headers["authorization"] = self.value


FORMS = pytest.mark.parametrize("value", [TOKEN, f"Bearer {TOKEN}"], ids=["raw", "bearer"])


def http_call(client, **more):
    i = httpclient.InferInput("INPUT__0", [1, 4], "FP32")
    i.set_data_from_numpy(np.ones((1, 4), dtype=np.float32), binary_data=False)
    o = [httpclient.InferRequestedOutput("OUTPUT__0", binary_data=False)]
    return client.infer("fc_model_pt", [i], outputs=o, **more).as_numpy("OUTPUT__0").tolist()


@FORMS
def test_B078_B082_H8_a_token_over_http(tokened, value):
    with httpclient.InferenceServerClient(url=f"{tokened.http}/api/predict/triton_service") as client:
        assert http_call(client, headers={"Authorization": value, "Host": GATEWAY}) == [[-1.0] * 4]
        for wrong in ({}, {"Authorization": "wrong"}, {"Authorization": value.lower()}):
            with pytest.raises(InferenceServerException) as e:
                http_call(client, headers=wrong)
            assert e.value.status() == "401"
        client.register_plugin(Header(value))
        assert http_call(client) == [[-1.0] * 4]
    got = requests.get(f"http://{tokened.http}/v2", headers={"Authorization": value}, timeout=60)
    assert got.status_code == 200 and requests.get(f"http://{tokened.http}/v2", timeout=60).status_code == 401


@FORMS
def test_B078_B082_H8_a_token_over_grpc(tokened, value):
    def call(client, **more):
        i = grpcclient.InferInput("INPUT__0", [1, 4], "FP32")
        i.set_data_from_numpy(np.ones((1, 4), dtype=np.float32))
        return client.infer("fc_model_pt", [i], **more).as_numpy("OUTPUT__0").tolist()

    with grpcclient.InferenceServerClient(tokened.grpc) as client:
        assert call(client, headers={"authorization": value}) == [[-1.0] * 4]
        with pytest.raises(InferenceServerException) as e:
            call(client)
        assert e.value.status() == "StatusCode.UNAUTHENTICATED"
        client.register_plugin(Header(value))
        assert call(client) == [[-1.0] * 4]
    with grpc.insecure_channel(tokened.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), metadata=(("authorization", value),)).ready
        with pytest.raises(grpc.RpcError) as e:
            stub.ServerReady(service_pb2.ServerReadyRequest())
        assert e.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_F047_curl_ready(served):
    if not shutil.which("curl"):
        pytest.skip("no curl on this machine")
    done = subprocess.run(["curl", "-v", f"{served.http}/v2/health/ready".replace("127.0.0.1", "localhost")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    lines = [line.strip() for line in done.stderr.splitlines()]
    for line in "< HTTP/1.1 200 OK", "< Content-Length: 0", "< Content-Type: text/plain":
        assert line in lines, done.stderr
    assert done.stdout == ""


def test_F047_requests_json(served):
    url = f"http://{served.http}/v2/models/fc_model_pt/versions/1/infer"
    request_data = {
        "inputs": [{"name": "INPUT__0", "shape": [1, 4], "datatype": "FP32", "data": [[0.1, 0.2, 0.3, 0.4]]}],
        "outputs": [{"name": "OUTPUT__0"}],
    }
    res = requests.post(url, json=request_data).json()
    assert res["model_name"] == "fc_model_pt" and res["model_version"] == "1"
    assert res["outputs"] == [
        {"name": "OUTPUT__0", "datatype": "FP32", "shape": [1, 4],
         "data": [-0.10000000149011612, -0.20000000298023224, -0.30000001192092896, -0.4000000059604645]}
    ]


@pytest.mark.parametrize("binary", [False, True])
def test_B022_B078_F043_client_behind_a_gateway(served, binary):
    """The client's URL has a path, Host is the gateway's name, and the token is sent without a prefix."""
    headers = {"Authorization": TOKEN, "Host": GATEWAY}
    client = httpclient.InferenceServerClient(url=f"{served.http}/api/predict/triton_service")
    inputs = [httpclient.InferInput("INPUT__0", [1, 4], "FP32")]
    inputs[0].set_data_from_numpy(np.ones((1, 4), dtype=np.float32), binary_data=binary)
    outputs = [httpclient.InferRequestedOutput("OUTPUT__0", binary_data=binary)]
    results = client.infer("fc_model_pt", inputs, outputs=outputs, headers=headers)
    assert results.as_numpy("OUTPUT__0").tolist() == [[-1.0] * 4]
    assert client.is_server_ready(headers=headers) and client.is_model_ready("fc_model_pt", headers=headers)
    assert client.get_model_metadata("fc_model_pt", headers=headers)["inputs"][0]["shape"] == [-1, 4]
    client.close()


def test_DV15_an_unknown_host_is_refused(served):
    assert served.request("GET", "/v2", headers={"Host": "elsewhere.example.com"}).status == 421


def test_B060_B078_raw_stub_with_a_token(served):
    """h2c, raw contents, and a token in the metadata."""
    options = [("grpc.max_receive_message_length", 2**31 - 1), ("grpc.max_send_message_length", 2**31 - 1)]
    with grpc.insecure_channel(served.grpc, options=options) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        metadata = (("authorization", TOKEN),)
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), metadata=metadata).ready
        request = service_pb2.ModelInferRequest()
        request.model_name = "fc_model_pt"
        request.model_version = "1"
        input = service_pb2.ModelInferRequest().InferInputTensor()
        input.name = "INPUT__0"
        input.datatype = "FP32"
        input.shape.extend([1, 4])
        request.inputs.extend([input])
        output = service_pb2.ModelInferRequest().InferRequestedOutputTensor()
        output.name = "OUTPUT__0"
        request.outputs.extend([output])
        request.raw_input_contents.extend([np.arange(4, dtype=np.float32).tobytes()])
        response, call = stub.ModelInfer.with_call(request, metadata=metadata)
        assert np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [-0.0, -1.0, -2.0, -3.0]
        assert call.code() == grpc.StatusCode.OK
