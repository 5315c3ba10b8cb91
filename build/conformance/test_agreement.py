"""After a storm over both protocols, the client's count agrees for each cause with metrics, statistics, the database,
the page in a browser, and the page's API."""

import collections
import concurrent.futures
import http.client
import json
import os
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from harness import BINARY, REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the metric, the page and the tokens are ours")

CONFIG = """backend: "python"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
QUEUE = """dynamic_batching { default_queue_policy {
  max_queue_size: 6 allow_timeout_override: true default_timeout_microseconds: 3600000000 } }
"""
GATE = """
import os, time
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        open("%(begun)s", "w").close()
        while not os.path.exists("%(open)s"):
            time.sleep(0.01)
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""
MIB = 1 << 20
# The packages of the browser tests, and the browser that they use.
BROWSER = (ROOT / "frontend/node_modules/playwright-core").exists() and (
    os.environ.get("NEREID_CHROMIUM") or shutil.which("chromium"))
OPTIONS = [f"--request-memory-limit={4 * MIB}", f"--http-max-input-size={16 * MIB}",
           f"--grpc-max-decompressed-size={MIB}"]


def write_models(repo, work):
    for name, more in ("moody", ""), ("gate", QUEUE):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text(CONFIG + more)
    shutil.copy2(ROOT / "build/conformance/python/moody.py", repo / "moody/1/model.py")
    (repo / "gate/1/model.py").write_text(GATE % {"begun": work / "begun", "open": work / "open"})


def body(value, **more):
    return {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [value]}], **more}


def tensor(value):
    x = grpcclient.InferInput("INPUT0", [np.size(value)], "FP32")
    x.set_data_from_numpy(np.array(value, np.float32).reshape(-1))
    return [x]


class Client:
    """Sends requests, and counts what became of each: refusals by protocol and cause, the others by model and cause."""

    def __init__(self, server, infer_token):
        self.server, self.infer_token = server, infer_token
        self.refused, self.models = collections.Counter(), collections.Counter()
        self.outcomes = collections.Counter()  # by protocol, outcome and cause of a refusal
        self.grpc = grpcclient.InferenceServerClient(server.grpc)
        self.admin = {"authorization": server.token}

    def http(self, status, cause, method, path, value=None, model=None, headers=None):
        text = value if isinstance(value, bytes) or value is None else json.dumps(value)
        answer = self.server.request(method, path, text, headers or {})
        assert answer.status == status, (path, answer)
        self.count("http", cause, model)

    def call(self, code, cause, do, model=None):
        """do makes a gRPC call that ends with a code; None: it succeeds."""
        if code is None:
            do()
        else:
            with pytest.raises((InferenceServerException, grpc.RpcError)) as e:
                do()
            got = e.value.status() if isinstance(e.value, InferenceServerException) else str(e.value.code())
            assert got == f"StatusCode.{code}", e.value
        self.count("grpc", cause, model)

    def count(self, protocol, cause, model=None):
        """model: that of a request which the model counts, with its cause there."""
        if cause:
            self.refused[protocol, cause] += 1
        if model:
            self.models[model] += 1
        ends = {"success": "ok", "BACKEND": "failed", "CANCELED": "cancelled"}
        self.outcomes[(protocol, "refused", cause) if cause else (protocol, ends[model[1]], "")] += 1

    def too_long(self):
        """Announces a body over the limit of HTTP, and sends none of it."""
        host = http.client.HTTPConnection(self.server.http, timeout=60)
        host.putrequest("POST", "/v2/models/moody/infer")
        host.putheader("Authorization", self.server.token)
        host.putheader("Content-Length", str(17 * MIB))
        host.endheaders()
        assert host.getresponse().status == 413
        host.close()
        self.count("http", "too_large")

    def stream(self, value, error, cause, model):
        """One request in a stream. error is part of the text of its error; None: it succeeds."""
        answers = collections.deque()
        with grpcclient.InferenceServerClient(self.server.grpc) as client:
            client.start_stream(lambda result, error: answers.append(error), headers=self.admin)
            client.async_stream_infer(model[0] if model else "absent", tensor(value))
            client.stop_stream()  # waits for the answer
        (answer,) = answers
        assert (answer is None) if error is None else error in str(answer), answer
        self.count("grpc", cause, model)

    def steps(self):
        """The kinds of requests. Each is a function without arguments."""
        path, moody = "/v2/models/moody/infer", lambda value, **more: self.grpc.infer("moody", tensor(value), **more)
        admin, infer = {"headers": self.admin}, {"headers": {"authorization": self.infer_token}}
        good, bad = ("moody", "success"), ("moody", "BACKEND")
        memory = "x" * (5 * MIB)
        with_infer = {"Authorization": self.infer_token}
        return [
            lambda: self.http(200, None, "POST", path, body(9), good),
            lambda: self.http(500, None, "POST", path, body(-1), bad),
            lambda: self.http(400, "invalid", "POST", path, body(3), bad),
            lambda: self.http(503, "unavailable", "POST", path, body(4), bad),
            lambda: self.http(400, None, "POST", path, body(7), ("moody", "CANCELED")),
            lambda: self.http(400, "invalid", "POST", path, b"no json"),
            lambda: self.http(404, "not_found", "POST", "/v2/models/absent/infer", body(9)),
            lambda: self.http(404, "not_found", "GET", "/no/such/path"),
            lambda: self.http(405, "unsupported", "GET", path),
            lambda: self.http(401, "unauthenticated", "POST", path, body(9), headers={"Authorization": "wrong"}),
            lambda: self.http(403, "forbidden", "POST", "/v2/repository/models/moody/load", {}, headers=with_infer),
            lambda: self.http(421, "forbidden", "POST", path, body(9), headers={"Host": "elsewhere.example"}),
            lambda: self.http(503, "unavailable", "POST", path, memory.encode()),
            self.too_long,
            lambda: self.call(None, None, lambda: moody(9, **admin), good),
            lambda: self.call("INTERNAL", None, lambda: moody(-1, **admin), bad),
            lambda: self.call("INVALID_ARGUMENT", "invalid", lambda: moody(3, **admin), bad),
            lambda: self.call("CANCELLED", None, lambda: moody(7, **admin), ("moody", "CANCELED")),
            lambda: self.call("INVALID_ARGUMENT", "invalid", lambda: self.grpc.infer("moody", [], **admin)),
            lambda: self.call("NOT_FOUND", "not_found", lambda: self.grpc.infer("absent", tensor(9), **admin)),
            lambda: self.call("UNIMPLEMENTED", "unsupported", self.unknown_method),
            lambda: self.call("UNAUTHENTICATED", "unauthenticated", lambda: moody(9)),
            lambda: self.call("PERMISSION_DENIED", "forbidden", lambda: self.grpc.load_model("moody", **infer)),
            lambda: self.call("RESOURCE_EXHAUSTED", "unavailable", lambda: moody(np.zeros(5 * MIB // 4), **admin)),
            lambda: self.call("RESOURCE_EXHAUSTED", "too_large", lambda: moody(
                np.arange(2 * MIB // 4), compression_algorithm="gzip", **admin)),
            lambda: self.stream(9, None, None, good),
            lambda: self.stream(-1, "negative", None, bad),
            lambda: self.stream(9, "unknown model", "not_found", None),
        ]

    def unknown_method(self):
        with grpc.insecure_channel(self.server.grpc) as channel:
            channel.unary_unary("/inference.GRPCInferenceService/Absent")(
                b"", metadata=[("authorization", self.server.token)])

    def pending(self, n):
        want = f'nv_inference_pending_request_count{{model="gate",version="1"}} {n}\n'
        until(lambda: want in text_of(self.server), 60, f"not {n} requests wait", lambda: text_of(self.server))

    def left(self, n):
        until(lambda: metrics(self.server).get(("gate", "CANCELED"), 0) == n, 60, f"not {n} requests are cancelled")

    def ask(self, answers):
        def done(result, error):
            assert error is None or "CANCELLED" in str(error), error
            answers.append(result)
        return self.grpc.async_infer("gate", tensor(9), done, headers=self.admin)

    def send(self):
        """Sends a request over a connection, which is not read."""
        host, port = self.server.http.split(":")
        text = json.dumps(body(9))
        s = socket.create_connection((host, int(port)))
        s.sendall(f"POST /v2/models/gate/infer HTTP/1.1\r\nHost: {self.server.http}\r\nAuthorization: "
                  f"{self.server.token}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        return s

    def storm_at_the_gate(self, work):
        """Time-outs, refusals and cancellations in the queue of a model that executes one request until it may end."""
        post = ("POST", "/v2/models/gate/infer")
        answers, rejected = [], ("gate", "REJECTED")
        self.ask(answers)
        until((work / "begun").exists, 60, "nothing is executed")
        for _ in range(3):
            self.http(503, "unavailable", *post, body(9, parameters={"timeout": 1000}), rejected)
            self.call("UNAVAILABLE", "unavailable", lambda: self.grpc.infer(
                "gate", tensor(9), timeout=1000, headers=self.admin), rejected)
        calls = [self.ask(answers) for _ in range(4)]
        leaving = [self.send() for _ in range(2)]
        self.pending(6)
        for _ in range(3):  # the queue is full
            self.http(503, "unavailable", *post, body(9), rejected)
            self.call("UNAVAILABLE", "unavailable", lambda: self.grpc.infer(
                "gate", tensor(9), headers=self.admin), rejected)
        for client in leaving:
            client.close()
        self.left(2)
        for call in calls[:2]:
            call.cancel()
        self.left(4)
        self.call("DEADLINE_EXCEEDED", None, lambda: self.grpc.infer(
            "gate", tensor(9), client_timeout=2, headers=self.admin), ("gate", "CANCELED"))
        self.left(5)
        for protocol in "http", "http", "grpc", "grpc":
            self.count(protocol, None, ("gate", "CANCELED"))
        (work / "open").touch()
        until(lambda: sum(a is not None for a in answers) == 3, 60, "not all are answered")
        for _ in range(3):
            self.count("grpc", None, ("gate", "success"))


def text_of(server):
    return server.request("GET", "/metrics", address=server.metrics).body.decode()


def metrics(server):
    """The models' own counts in the metrics, by model and cause."""
    found = re.findall(r'^nv_inference_request_(success|failure)\{(.*)\} (\d+)$', text_of(server), re.MULTILINE)
    out = collections.Counter()
    for family, labels, n in found:
        labels = dict(re.findall(r'(\w+)="(\w+)"', labels))
        out[labels["model"], labels.get("reason", family)] += int(n)
    return out


def refusals(server):
    found = re.findall(r'nereid_request_refused_total\{protocol="(\w+)",cause="(\w+)"\} (\d+)', text_of(server))
    return collections.Counter({(p, c): int(n) for p, c, n in found})


def page(server, path):
    answer = server.request("GET", path, headers={"X-Nereid": "1"}, address=server.ui_address)
    assert answer.status == 200, answer
    return answer.json


def listed(server):
    """The requests in the page's list, by protocol, outcome and cause."""
    found = page(server, "/api/requests?limit=500")
    assert not found["more"] and not found["missed"] and not found["dropped"], found
    return collections.Counter((r["protocol"], r["outcome"], r["cause"]) for r in found["requests"])


def kept(database):
    """The requests in the database that did not succeed, by protocol, outcome and cause."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT protocol, outcome, cause FROM request WHERE outcome <> 'ok'").fetchall()
    return collections.Counter(rows)


def totals(models, model):
    """Requests and failures of a model."""
    n = sum(n for (m, _), n in models.items() if m == model)
    return n, n - models[model, "success"]


def charted(server, model):
    """Requests and failures of a model in the page's history."""
    now = int(time.time() * 1000)
    path = f"/api/history?model={model}&from={now - 600_000}&to={now + 5000}&step=1000"
    series = page(server, path)["series"]
    return sum(sum(s["requests"]) for s in series), sum(sum(s["failures"]) for s in series)


def stored(database):
    """The counts of the models in the database, by model and cause."""
    causes = {"successes": "success", "rejected": "REJECTED", "canceled": "CANCELED", "backend_errors": "BACKEND",
              "other_errors": "OTHER"}
    sums = ", ".join(f"SUM({c})" for c in causes)
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        rows = db.execute(f"SELECT model, SUM(requests), {sums} FROM sample_second JOIN series ON id = series_id "
                          "GROUP BY model").fetchall()
    out = collections.Counter()
    for model, requests, *counts in rows:
        assert sum(counts) == requests, (model, requests, counts)
        out.update({(model, cause): n for cause, n in zip(causes.values(), counts) if n})
    return out


WORDS = {"invalid": "invalid", "unauthenticated": "no valid token", "forbidden": "not allowed",
         "not_found": "not found", "unsupported": "not supported", "timeout": "too slow", "too_large": "too large",
         "unavailable": "unavailable"}
PROTOCOLS = {"http": "HTTP", "grpc": "gRPC"}


def in_words(counts):
    """Counts by protocol and cause, or by protocol, outcome and cause, as the pages name them."""
    return {f"{PROTOCOLS[protocol]}: {WORDS.get(rest[-1]) or rest[0]}": n for (protocol, *rest), n in counts.items()}


def in_a_browser(server):
    """What the pages show in a browser: the legend of the refused requests, and the rows of the list of requests."""
    done = subprocess.run(["node", "e2e/counts.mjs", server.ui], cwd=ROOT / "frontend", capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def token(data, name, scope):
    return subprocess.run([BINARY, "token", "create", f"--data-dir={data}", f"--name={name}", f"--scope={scope}"],
                          check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def storm(client, work, rounds=2):
    steps = client.steps() * rounds
    random.Random(16).shuffle(steps)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = [pool.submit(step) for step in steps]
        client.storm_at_the_gate(work)
        for d in done:
            d.result(60)


def test_all_counts_agree_after_a_storm(tmp_path):
    repo, data = tmp_path / "models", tmp_path / "data"
    write_models(repo, tmp_path)
    data.mkdir()
    admin, infer = token(data, "all", "admin"), token(data, "some", "infer")
    with Server(repo, tmp_path, *OPTIONS, token=admin) as s:
        before, asked = refusals(s), listed(s)  # the harness may have asked before the server was ready
        client = Client(s, infer)
        storm(client, tmp_path)
        after = refusals(s)
        assert after - before == client.refused
        shown = page(s, "/api/refused")
        assert {(c["protocol"], c["cause"]): c["total"] for c in shown["causes"]} == after
        assert collections.Counter((c["protocol"], c["cause"]) for c in shown["last"]) == after
        until(lambda: listed(s) - asked == client.outcomes, 60, "the list of requests",
              lambda: f"{listed(s) - asked}\nwant {client.outcomes}")
        requests = listed(s)
        want = client.models
        until(lambda: +metrics(s) == want, 60, "metrics", lambda: f"{metrics(s)}\nwant {want}")
        for name in "moody", "gate":
            (row,) = s.get(f"/v2/models/{name}/stats").json["model_stats"]
            counts = row["inference_stats"]
            n, failed = totals(want, name)
            assert (counts["success"]["count"], counts["fail"]["count"]) == (n - failed, failed)
            until(lambda: charted(s, name) == totals(want, name), 60, f"the history of {name}",
                  lambda: f"{charted(s, name)}, want {totals(want, name)}")
        if BROWSER:
            assert in_a_browser(s) == {"refused": in_words(after), "requests": in_words(requests)}
        assert s.stop() == 0
    (database,) = data.glob("*.db")
    assert stored(database) == want
    assert kept(database) == {key: n for key, n in requests.items() if key[1] != "ok"}
