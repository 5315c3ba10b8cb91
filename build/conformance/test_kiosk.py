"""The public page (--kiosk): visitors may try the models that are shown, and nothing else."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import pathlib
import socket

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm

from harness import REFERENCE, ROOT, Server, until
from models import write_builtin

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no page")

VALUES = {"inputs": [{"name": "INPUT0", "shape": [1, 16], "datatype": "FP32", "data": list(range(16))}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("kiosk")
    with Server(ROOT / "models-sample", work, "--model-control-mode=explicit", "--load-model=identity_fp32",
                "--load-model=add_sub", "--load-model=digits", "--kiosk", "--kiosk-port=0",
                "--kiosk-models=identity_fp32, digits,words") as s:
        yield s


def visit(s, method, path, body=None, headers=None):
    body = json.dumps(body) if isinstance(body, dict) else body
    return s.request(method, path, body, {"X-Nereid": "1", **(headers or {})}, s.kiosk.removeprefix("http://"))


def test_H17_a_visitor_tries_the_models_that_are_shown(server):
    models = visit(server, "GET", "/api/kiosk").json["models"]
    assert [(m["name"], m["ready"]) for m in models] == [("digits", True), ("identity_fp32", True), ("words", False)]
    answer = visit(server, "POST", "/api/infer/identity_fp32", VALUES)
    assert answer.status == 200 and answer.json["outputs"][0]["data"] == list(range(16))
    detail = visit(server, "GET", "/api/kiosk/digits").json
    assert detail["labels"]["scores"][7] == "seven" and "grey_28" in detail["examples"]
    assert "inputs" in json.loads(visit(server, "GET", "/api/kiosk/digits/requests/grey_28").json["text"])
    until(lambda: {m["name"]: m["lastMinute"]["requests"] for m in visit(server, "GET", "/api/kiosk").json["models"]}
          ["identity_fp32"] >= 1, 30, "the request is not in the chart")


@pytest.mark.parametrize("path", ["/api/kiosk/add_sub", "/api/kiosk/missing", "/api/kiosk/..%2Fdigits",
                                  "/api/kiosk/digits/requests/..%2Fconfig"])
def test_H17_a_visitor_does_not_see_other_models_or_files(server, path):
    answer = visit(server, "GET", path)
    assert answer.status in (400, 404)
    assert str(ROOT) not in answer.body.decode(), "an error names a folder of the server"


def test_H17_a_visitor_cannot_ask_other_models(server):
    for name in ("add_sub", "missing", "identity_fp32/../add_sub", "identity_fp32%2F..%2Fadd_sub"):
        assert visit(server, "POST", f"/api/infer/{name}", VALUES).status in (301, 307, 404), name


def test_H17_the_public_page_has_no_other_routes(server):
    """Every route of the GUI, as the server's own list of routes names them."""
    routes = [line.split()[1:3] for line in pathlib.Path(ROOT / "app/console/api/doc.go").read_text().splitlines()
              if line.startswith("//\t") and line.split()[1] in ("GET", "PUT", "POST", "DELETE")]
    assert len(routes) > 80
    for method, path in routes:
        path = path.split("?")[0].replace("{name}", "identity_fp32").replace("{", "").replace("}", "").replace("...", "")
        if path.startswith("/api/kiosk") or path in ("/config.js", "/api/infer/identity_fp32"):
            continue
        assert visit(server, method, path, {}).status == 404, (method, path)
    for path in ("/v2/models/identity_fp32/infer", "/v2/repository/models/identity_fp32/unload", "/metrics"):
        assert visit(server, "POST", path, {}).status in (404, 405), path
    assert server.get("/v2/models/identity_fp32/ready").status == 200


def test_H17_a_visitor_cannot_use_shared_memory(server):
    client = triton.InferenceServerClient(server.http)
    region = shm.create_shared_memory_region("kiosk", "/nereid_kiosk_test", 64)
    try:
        shm.set_shared_memory_region(region, [np.full(16, 7, np.float32)])
        client.register_system_shared_memory("kiosk", "/nereid_kiosk_test", 64)
        place = {"shared_memory_region": "kiosk", "shared_memory_byte_size": 64}
        reads = {"inputs": [{**VALUES["inputs"][0], "parameters": place}]}
        del reads["inputs"][0]["data"]
        writes = {**VALUES, "outputs": [{"name": "OUTPUT0", "parameters": place}]}
        for body in (reads, writes):
            assert server.request("POST", "/v2/models/identity_fp32/infer", json.dumps(body)).status == 200
        shm.set_shared_memory_region(region, [np.full(16, 7, np.float32)])
        for body in (reads, writes):
            answer = visit(server, "POST", "/api/infer/identity_fp32", body, {"Nereid-Page": "1"})
            assert answer.status >= 400 and "shared memory" in answer.error
        assert (shm.get_contents_as_numpy(region, np.float32, [16]) == 7).all()
    finally:
        client.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(region)


def test_H17_a_visitors_request_is_bounded(server):
    large = visit(server, "POST", "/api/infer/identity_fp32", b" " * ((16 << 20) + 1))
    assert large.status == 413 and "at most 16 MiB" in large.error
    assert visit(server, "POST", "/api/infer/identity_fp32", VALUES).status == 200
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert visit(server, "POST", "/api/infer/identity_fp32", VALUES, foreign).status == 403
    without = server.request("POST", "/api/infer/identity_fp32", json.dumps(VALUES), {},
                             server.kiosk.removeprefix("http://"))
    assert without.status == 403


@pytest.mark.parametrize("page, path", [
    ("ui", "/api/access/tokens"), ("ui", "/api/session"), ("ui", "/api/client-errors"),
    ("ui", "/api/infer/identity_fp32"), ("kiosk", "/api/infer/identity_fp32")])
def test_A26_a_page_refuses_a_body_of_1_TB_at_once(server, page, path):
    address = getattr(server, page).removeprefix("http://")
    head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nX-Nereid: 1\r\nContent-Length: 1000000000000\r\n\r\n"
    with socket.create_connection(address.split(":"), 30) as client:  # a body may hang for a minute
        client.sendall(head.encode())
        assert client.recv(12) == b"HTTP/1.1 413"


def test_H17_a_visitors_request_may_not_grow(server):
    """Neither chunks nor compression get past the limit."""
    address = server.kiosk.removeprefix("http://").split(":")
    head = b"POST /api/infer/identity_fp32 HTTP/1.1\r\nHost: localhost\r\nX-Nereid: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(address, 30) as visitor:
        visitor.sendall(head)
        for _ in range(17):
            visitor.sendall(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        visitor.sendall(b"0\r\n\r\n")
        assert visitor.recv(20).startswith(b"HTTP/1.1 413")
    packed = gzip.compress(json.dumps(VALUES).encode())
    answer = visit(server, "POST", "/api/infer/identity_fp32", packed, {"Content-Encoding": "gzip"})
    assert answer.status == 501 and "compressed" in answer.error


def test_H17_slow_visitors_keep_nobody_from_the_models(server):
    address = server.kiosk.removeprefix("http://").split(":")
    head = b"POST /api/infer/identity_fp32 HTTP/1.1\r\nHost: localhost\r\nX-Nereid: 1\r\nContent-Length: 5000\r\n\r\n{"
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(socket.create_connection(address, 30)).sendall(head)
        for _ in range(30):
            assert visit(server, "POST", "/api/infer/identity_fp32", VALUES).status == 200


WAITS = """
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists("%s"):
            time.sleep(.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


def visit_from(s, host, model):
    """Sends a request from an address of its own, and returns the answer's status."""
    connection = http.client.HTTPConnection(s.kiosk.removeprefix("http://"), timeout=60, source_address=(host, 0))
    with contextlib.closing(connection):
        connection.request("POST", f"/api/infer/{model}", json.dumps(VALUES), {"X-Nereid": "1"})
        return connection.getresponse().status


def answered(s, host, model):
    """Sends a request again while others of its address leave it no place."""
    while (status := visit_from(s, host, model)) == 503:
        pass
    return status


def test_H17_one_visitor_leaves_half_to_the_others(tmp_path):
    repo, go = tmp_path / "models", tmp_path / "go"
    write_builtin(repo, "quick", "identity", "", [("INPUT0", "FP32", [1, 16])], [("OUTPUT0", "FP32", [1, 16])])
    waits = write_builtin(repo, "waits", "python", "", [("INPUT0", "FP32", [1, 16])], [("OUTPUT0", "FP32", [1, 16])])
    (waits / "1").mkdir(exist_ok=True)
    (waits / "1/model.py").write_text(WAITS % go)
    with Server(repo, tmp_path, "--kiosk", "--kiosk-port=0") as s, concurrent.futures.ThreadPoolExecutor(4) as pool:
        try:
            waiting = [pool.submit(answered, s, "127.0.0.1", "waits") for _ in range(4)]
            until(lambda: visit_from(s, "127.0.0.1", "quick") == 503, 30, "one address gets more than half")
            assert visit_from(s, "127.0.0.2", "quick") == 200
            assert not any(w.done() for w in waiting)
        finally:
            go.touch()
        assert [w.result() for w in waiting] == [200] * 4
        assert visit_from(s, "127.0.0.1", "quick") == 200


def test_H17_a_visitor_sees_only_models_that_are_ready(tmp_path):
    with Server(ROOT / "models-sample", tmp_path, "--model-control-mode=explicit", "--load-model=digits", "--kiosk",
                "--kiosk-port=0") as s:
        assert visit(s, "GET", "/api/kiosk/digits/requests/grey_28").status == 200
        for path in ("/api/kiosk/add_sub", "/api/kiosk/add_sub/requests/one_row"):
            assert visit(s, "GET", path).status == 404, path


def test_H17_the_public_page_on_the_network_opens_nothing_else(tmp_path):
    """It needs no token, and names its address; the other ports stay on loopback and need none either."""
    with Server(ROOT / "models-sample", tmp_path, "--model-control-mode=explicit", "--load-model=identity_fp32",
                "--kiosk", "--kiosk-port=0", "--kiosk-address=0.0.0.0") as s:
        url = s.kiosk.replace("[::]", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
        answer = s.request("GET", "/api/kiosk", None, {}, url.removeprefix("http://"))
        assert [m["name"] for m in answer.json["models"]] == ["identity_fp32"]
        assert answer.json["url"] == "" or answer.json["url"].endswith(f":{url.rsplit(':', 1)[1]}/")
        assert all(a.startswith("127.0.0.1") for a in (s.http, s.grpc, s.metrics)) and "127.0.0.1" in s.ui
        assert s.get("/v2/models/identity_fp32/ready").status == 200
