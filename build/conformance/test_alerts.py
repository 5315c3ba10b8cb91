"""Alerts: a version that fails more than the one before raises exactly one, which reaches the page, the history, and a
webhook that fails first. So does one that is slower. Reloads without a change raise none."""

import hashlib
import hmac
import http.server
import json
import shutil
import threading
import time

import pytest

from harness import REFERENCE, Server
from test_soak import FULL

pytestmark = pytest.mark.skipif(REFERENCE, reason="alerts are ours")

CONFIG = """backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""

MODEL = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    n = 0

    def execute(self, requests):
        out = []
        for r in requests:
            self.n += 1
            if self.n % FAILS == 0:
                out.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("every other one")))
                continue
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return out
"""

REQUEST = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [1]}]}
SECRET = "the secret of the webhook"


def until(condition, limit=120):
    """Polls until the condition holds, and returns its value."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError("the condition does not hold")


@pytest.fixture
def receiver():
    """A receiver of the webhook that refuses the first two requests; its list has all of them."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers), body))
            self.send_response(503 if len(got) <= 2 else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got
    server.shutdown()
    server.server_close()
    thread.join()


def write(repo, version, fails):
    folder = repo / "guarded" / str(version)
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL.replace("FAILS", str(fails)))
    (repo / "guarded" / "config.pbtxt").write_text(CONFIG)


def test_a_version_that_fails_more_raises_one_alert_everywhere(tmp_path, receiver):
    url, got = receiver
    write(tmp_path / "models", 1, 1_000_000)
    with Server(tmp_path / "models", tmp_path / "work", "--model-control-mode=explicit", "--load-model=guarded") as s:
        def api(method, path, body=None):
            r = s.request(method, path, None if body is None else json.dumps(body).encode(), {"X-Nereid": "1"},
                          s.ui_address)
            assert r.status == 200, r.body
            return r.json

        def infer(n):
            return [s.post("/v2/models/guarded/infer", REQUEST).status for _ in range(n)]

        state = api("PUT", "/api/webhook", {"url": url, "secret": SECRET})
        assert state["signed"] and SECRET not in json.dumps(api("GET", "/api/webhook"))
        assert infer(60) == [200] * 60
        sent = time.monotonic()
        until(lambda: api("GET", "/api/models/guarded/loads")["loads"][0]["requests"] == 60)
        until(lambda: time.monotonic() - sent > 4)  # the last seconds before a load are not compared
        write_two = tmp_path / "two"
        write(write_two, 2, 2)
        shutil.move(write_two / "guarded" / "2", tmp_path / "models" / "guarded" / "2")
        assert s.post("/v2/repository/models/guarded/load").status == 200

        def raised():
            infer(5)
            return api("GET", "/api/alerts")["open"]

        alert = until(raised)[0]
        assert (alert["kind"], alert["model"], alert["version"]) == ("version", "guarded", "2")
        assert alert["compared"]["failsMore"] and alert["compared"]["before"] == "1"
        assert alert["compared"]["beforeFailures"] == 0 and 0.4 < alert["compared"]["nowFailures"] < 0.6
        # The other rules, which would fire too, say nothing more while the alert is open.
        until(lambda: infer(5) and time.monotonic() - sent > 10)
        assert [a["id"] for a in api("GET", "/api/alerts")["open"]] == [alert["id"]]
        events = api("GET", "/api/history/events?kind=alert")["events"]
        assert len(events) == 1 and "fail" in events[0]["text"], events
        loads = api("GET", "/api/models/guarded/loads")["loads"]
        assert [x["version"] for x in loads] == ["2", "1"] and all(x["config"] for x in loads), loads
        assert loads[0]["failures"] > 0 and loads[1]["failures"] == 0

        until(lambda: len(got) >= 3)
        for headers, body in got:
            stamp = headers["X-Nereid-Timestamp"].encode()
            mac = hmac.new(SECRET.encode(), stamp + b"." + body, hashlib.sha256).hexdigest()
            assert headers["X-Nereid-Signature"] == "sha256=" + mac
            assert json.loads(body)["alert"]["id"] == alert["id"]
        until(lambda: api("GET", "/api/webhook")["delivered"] == 1)
        assert SECRET not in s.log()

        rules = api("PUT", "/api/models/guarded/alerts",
                    {"rules": [{"kind": "failures", "on": True, "limit": 0.9}], "silencedUntilMs": 0})["rules"]
        assert [r["limit"] for r in rules if r["kind"] == "failures"] == [0.9]
        left = api("POST", f"/api/alerts/{alert['id']}/dismiss")
        assert left["open"] == [] and left["past"][0]["id"] == alert["id"]


SLOW = """import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(SECONDS)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())])
                for r in requests]
"""


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_slower_version_raises_one_alert_and_reloads_none(tmp_path):
    """A version that takes 1.25 times as long raises an alert. Twenty reloads of the same model before it do not. In
    `make test` only the last of them serves for long enough to be compared."""
    repo = tmp_path / "models"

    def publish(version, seconds):
        write(tmp_path / "aside", version, 1)
        folder = tmp_path / "aside" / "guarded" / str(version)
        (folder / "model.py").write_text(SLOW.replace("SECONDS", str(seconds)))
        (repo / "guarded").mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "aside" / "guarded" / "config.pbtxt", repo / "guarded")
        shutil.move(folder, repo / "guarded" / str(version))

    publish(1, 0.04)
    with Server(repo, tmp_path / "work", "--model-control-mode=explicit", "--load-model=guarded") as s:
        def alerts():
            return json.loads(s.request("GET", "/api/alerts", address=s.ui_address).body)

        def serve(seconds, stop=lambda: False):
            end = time.monotonic() + seconds
            while time.monotonic() < end and not stop():
                assert s.post("/v2/models/guarded/infer", REQUEST).status == 200

        def reload():
            with (repo / "guarded" / "1" / "model.py").open("a") as f:
                f.write("\n")  # an unchanged model is not loaded again
            assert s.post("/v2/repository/models/guarded/load").status == 200

        serve(40)  # a comparison takes 30 seconds of each side
        for n in range(20):
            reload()
            serve(36 if FULL or n == 19 else 0.3)
        loads = json.loads(s.request("GET", "/api/models/guarded/loads", address=s.ui_address).body)
        assert len(loads["loads"]) == 20, loads  # the last 20
        assert len({load["config"] for load in loads["loads"]}) == 1, loads
        files = {load["files"] for load in loads["loads"]}
        assert len(files) == len(loads["loads"]) and "" not in files, loads  # model.py is another one in each
        got = alerts()
        assert got["open"] == got["past"] == [], got
        publish(2, 0.051)  # the rest of a request takes less than a millisecond, or a few on a busy machine
        reload()
        serve(120, lambda: alerts()["open"])
        (alert,) = alerts()["open"]
        compared = alert["compared"]
        assert (alert["kind"], alert["version"], compared["before"]) == ("version", "2", "1")
        assert compared["slower"] and not compared["failsMore"], compared

        def busy():
            reply = s.request("GET", "/api/models/guarded/loads", address=s.ui_address)
            return next(load["cpu"] for load in reply.json["loads"] if load["version"] == "1")

        assert 0 < until(busy) <= 1  # of the newest load of version 1; known when a minute has ended
