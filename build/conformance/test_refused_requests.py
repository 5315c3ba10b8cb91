"""Refused requests are counted by cause, over both protocols, in the metrics and for the GUI."""

import collections
import json
import re
import shutil

import grpc
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, ROOT, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="the metric and the page are ours")

METRIC = re.compile(r'nereid_request_refused_total\{protocol="(\w+)",cause="(\w+)"\} (\d+)')


def metric(server):
    text = server.request("GET", "/metrics", address=server.metrics).body.decode()
    return {(p, c): int(n) for p, c, n in METRIC.findall(text)}


def shown(server):
    return json.loads(server.request("GET", "/api/refused", address=server.ui_address).body)


def over_http(server, expected):
    def send(cause, status, method, path, body=None, headers=None):
        assert server.request(method, path, body, headers or {}).status == status, path
        expected["http", cause] += 1

    send("not_found", 404, "GET", "/no/such/path")
    send("not_found", 404, "POST", "/v2/models/absent/infer", b"{}")
    for body in (b"no json", b'{"inputs":[]}', b"[]"):
        send("invalid", 400, "POST", "/v2/models/add_sub/infer", body)
    send("unsupported", 405, "GET", "/v2/models/add_sub/infer")
    send("too_large", 413, "POST", "/v2/models/add_sub/infer", b"x" * 100_001)
    send("forbidden", 403, "GET", "/v2/models/stats")


def over_grpc(server, expected):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        for call in (lambda: client.get_model_metadata("absent"), lambda: client.infer("absent", [])):
            with pytest.raises(InferenceServerException, match="unknown model"):
                call()
            expected["grpc", "not_found"] += 1
        with pytest.raises(InferenceServerException, match="input"):
            client.infer("add_sub", [])
        expected["grpc", "invalid"] += 1
        answers = collections.deque()
        client.start_stream(lambda result, error: answers.append(error))
        client.async_stream_infer("absent", [])
        client.stop_stream()
        assert "unknown model" in str(answers.pop())
        expected["grpc", "not_found"] += 1
    with grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError, match="unknown method"):
            channel.unary_unary("/inference.GRPCInferenceService/Absent")(b"")
        expected["grpc", "unsupported"] += 1


def test_refused_requests_are_counted_by_cause(tmp_path):
    shutil.copytree(ROOT / "models-sample" / "add_sub", tmp_path / "models" / "add_sub")
    expected = collections.Counter()
    with Server(tmp_path / "models", tmp_path / "work", "--http-max-input-size=100000",
                "--http-restricted-api=statistics:k=v") as server:
        before = metric(server)  # the harness may have asked before the server was ready
        over_http(server, expected)
        over_grpc(server, expected)
        after = metric(server)
        assert {k: n - before.get(k, 0) for k, n in after.items() if n > before.get(k, 0)} == expected
        page = shown(server)
        assert {(c["protocol"], c["cause"]): c["total"] for c in page["causes"]} == after
        assert len(page["last"]) == sum(after.values())
        newest = page["last"][0]
        assert newest["target"] == "/inference.GRPCInferenceService/Absent" and newest["client"].startswith("127.0.0.1:")
        assert "unknown method" in newest["text"]
