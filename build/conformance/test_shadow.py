"""A candidate version gets copies of the requests to the version in service, and is flagged when it disagrees."""

import http.client
import json
import time

import pytest

from harness import REFERENCE, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="candidates are ours")

CONFIG = """backend: "python"
input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "SCORES" data_type: TYPE_FP32 dims: [ 10 ] } ]
version_policy { specific { versions: [ 1 ] } }
"""

# Of its requests, version 2 gives every 100th another label.
MODEL = """import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.flips = args["model_version"] == "2"
        self.n = 0

    def execute(self, requests):
        out = []
        for r in requests:
            self.n += 1
            label = int(pb_utils.get_input_tensor_by_name(r, "X").as_numpy()[0])
            if self.flips and self.n % 100 == 0:
                label += 1
            scores = np.zeros(10, np.float32)
            scores[label % 10] = 1
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores)]))
        return out
"""


class Page:
    """The console's interface."""

    def __init__(self, server):
        self.server = server

    def __call__(self, method, path, body=None, want=200):
        conn = http.client.HTTPConnection(self.server.ui_address, timeout=120)
        conn.request(method, "/api/models/labels" + path, body=json.dumps(body) if body is not None else None,
                     headers={"X-Nereid": "1"})
        answer = conn.getresponse()
        text = answer.read()
        conn.close()
        assert answer.status == want, text
        return json.loads(text)


@pytest.fixture
def server(tmp_path):
    for v in "123":
        folder = tmp_path / "models/labels" / v
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(MODEL)
    (tmp_path / "models/labels/config.pbtxt").write_text(CONFIG)
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", "--load-model=labels") as s:
        yield s


def infer(conn, n, version=""):
    path = "/v2/models/labels" + (f"/versions/{version}" if version else "") + "/infer"
    conn.request("POST", path, json.dumps({"inputs": [{"name": "X", "datatype": "INT32", "shape": [1], "data": [n]}]}))
    answer = conn.getresponse()
    return answer.status, answer.read()


def send(server, page, most):
    """Sends requests until the candidate is flagged; copies of at most 50 wait. Returns how many were sent."""
    conn = http.client.HTTPConnection(server.http, timeout=120)
    for n in range(1, most + 1):
        assert infer(conn, n % 10)[0] == 200
        if n % 50:
            continue
        end = time.monotonic() + 60
        while (state := page("GET", "/shadow"))["compared"] < n:
            assert time.monotonic() < end, state
            time.sleep(0.01)
        if state["flagged"]:
            break
    conn.close()
    return n


def test_a_candidate_with_flipped_labels_is_flagged_and_another_is_promoted(server):
    page = Page(server)
    start = {"percent": 100, "whenBusy": True}
    page("POST", "/shadow", {"version": "2", **start}, 201)
    sent = send(server, page, 2000)
    state = page("GET", "/shadow")
    assert state["flagged"] and state["compared"] == sent and state["compared"] - state["agreed"] == sent // 100, state
    assert state["dropped"] == state["failed"] == state["waiting"] == 0, state
    assert state["outputs"] == [{"name": "SCORES", "rule": "top", "agreed": state["agreed"], "mismatched": "",
                                 "maxAbs": 1, "maxRel": 1}]
    assert state["gapErrorUs"] > 0

    # Nobody reaches the candidate, and its requests are not counted.
    conn = http.client.HTTPConnection(server.http, timeout=120)
    assert infer(conn, 1, "2")[0] == 400 or infer(conn, 1, "2")[0] == 404 or infer(conn, 1, "2")[0] == 503
    conn.request("GET", "/v2/models/stats")
    stats = json.loads(conn.getresponse().read())["model_stats"]
    assert [(s["version"], s["inference_count"]) for s in stats if s["name"] == "labels"] == [("1", sent)]
    assert page("POST", "/shadow", {"version": "3", **start}, 503)["error"].endswith("discard it first")

    assert page("DELETE", "/shadow")["ended"] == "discarded"
    page("POST", "/shadow", {"version": "3", **start}, 201)
    send(server, page, 200)
    state = page("GET", "/shadow")
    assert not state["flagged"] and state["agreed"] == state["compared"] == 200, state
    assert page("POST", "/shadow/promote")["ok"]
    assert page("GET", "/shadow")["ended"] == "promoted"
    conn.request("POST", "/v2/repository/index", json.dumps({"ready": True}))
    index = json.loads(conn.getresponse().read())
    assert [(m["name"], m["version"]) for m in index] == [("labels", "3")]
    assert infer(conn, 7)[0] == 200
    conn.close()
