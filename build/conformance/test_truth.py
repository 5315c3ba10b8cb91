"""Statistics, metrics and history agree with the requests that were sent (cases G1 to G4)."""

import collections
import json
import re
import socket
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server, until
from test_soak import FULL

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's statistics and history")

SLOW = """backend: "identity"
max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "execute_delay_ms" value { string_value: "20" } }
dynamic_batching { default_queue_policy { max_queue_size: 4 } }
"""
FAST = """backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }
"""


def model(repo, name, config):
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "1/x").touch()
    (repo / name / "config.pbtxt").write_text(config)


def table(repo):
    """A model that returns the element of a table of four. A larger index makes the execution fail."""
    (repo / "table/1").mkdir(parents=True)
    values = onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), "values")
    g = helper.make_graph([helper.make_node("Gather", ["values", "INPUT0"], ["OUTPUT0"])], "g",
                          [helper.make_tensor_value_info("INPUT0", TensorProto.INT64, ["n", 1])],
                          [helper.make_tensor_value_info("OUTPUT0", TensorProto.FLOAT, ["n", 1])], [values])
    onnx.save_model(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                    repo / "table/1/model.onnx")
    (repo / "table/config.pbtxt").write_text('backend: "onnxruntime"\nmax_batch_size: 8\n')


def body(value, datatype="FP32", shape=(1, 1)):
    return {"inputs": [{"name": "INPUT0", "datatype": datatype, "shape": list(shape), "data": [value]}]}


def abandon(server, name):
    """Sends a request and disconnects before its answer."""
    host, port = server.http.rsplit(":", 1)
    text = json.dumps(body(1)).encode()
    with socket.create_connection((host, int(port))) as s:
        head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {server.http}\r\nContent-Length: {len(text)}\r\n\r\n"
        s.sendall(head.encode() + text)
        time.sleep(0.002)


def statistics(server, name):
    (s,) = server.get(f"/v2/models/{name}/stats").json["model_stats"]
    return s["inference_stats"]


SAMPLE = re.compile(r'^(\w+)\{(.*)\} (\S+)$')


def metrics(server):
    """The counters of the models: {(family, labels): value}."""
    text = server.request("GET", "/metrics", address=server.metrics).body.decode()
    found = {}
    for line in text.splitlines():
        m = SAMPLE.match(line)
        if m and m[1].startswith("nv_inference"):
            found[m[1], m[2]] = float(m[3])
    return found


def failures(server, name):
    """The failures of a model, by reason."""
    found = {}
    for (family, labels), value in metrics(server).items():
        if family == "nv_inference_request_failure" and f'model="{name}"' in labels:
            found[re.search(r'reason="(\w+)"', labels)[1]] = value
    return found


def history(server, name):
    """Requests and failures in the history that the GUI shows."""
    now = int(time.time() * 1000)
    answer = server.request("GET", f"/api/history?model={name}&from={now - 600_000}&to={now + 5000}&step=1000",
                            headers={"X-Nereid": "1"},
                            address=server.ui_address)
    assert answer.status == 200, answer.body
    series = answer.json["series"]
    return sum(sum(s["requests"]) for s in series), sum(sum(s["failures"]) for s in series)


def storm(server, threads=12, each=30):
    """Sends all kinds of requests concurrently. Returns the number of each outcome that clients saw, by model."""
    seen, lock = collections.Counter(), threading.Lock()

    def client(k):
        for n in range(each):
            kind = (k + n) % 5
            if kind == 4:
                abandon(server, "slow")
                outcome = "slow", "left"
            elif kind == 3:
                answer = server.post("/v2/models/table/infer", body(99, "INT64"))
                outcome = "table", answer.status
            elif kind == 2:
                outcome = "table", server.post("/v2/models/table/infer", body(1, "INT64")).status
            else:
                outcome = "slow", server.post("/v2/models/slow/infer", body(1)).status
            with lock:
                seen[outcome] += 1

    clients = [threading.Thread(target=client, args=(k,)) for k in range(threads)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    return seen


def totals(server, name):
    """The successes and failures in the statistics."""
    s = statistics(server, name)
    return int(s["success"].get("count", 0)), int(s["fail"].get("count", 0))


def test_G1_G4_every_request_is_counted_once_in_all_places(tmp_path):
    repo = tmp_path / "models"
    model(repo, "slow", SLOW)
    table(repo)
    with Server(repo, tmp_path) as s:
        seen = storm(s)
        assert seen["slow", 200] and seen["slow", 503] and seen["slow", "left"] and seen["table", 200], seen
        assert set(seen) <= {("slow", 200), ("slow", 503), ("slow", "left"), ("table", 200), ("table", 400),
                             ("table", 500)}, seen
        sent = {name: sum(n for (m, _), n in seen.items() if m == name) for name in ("slow", "table")}
        for name in sent:
            until(lambda: sum(totals(s, name)) == sent[name], 60, f"{name}: {sent[name]} were sent",
                  lambda: f"{totals(s, name)} {failures(s, name)} {seen}")
        success, fail = totals(s, "slow")
        reasons = failures(s, "slow")
        assert reasons["REJECTED"] >= seen["slow", 503] and reasons["CANCELED"] > 0, (reasons, seen)
        assert success >= seen["slow", 200], "an answered request is not counted as a success"
        assert success + reasons["REJECTED"] + reasons["CANCELED"] == sent["slow"], (success, reasons, seen)
        assert fail == sum(reasons.values())
        assert totals(s, "table")[0] == seen["table", 200]
        assert failures(s, "table")["BACKEND"] == sent["table"] - seen["table", 200]
        for name in sent:
            family = {labels: v for (f, labels),
                      v in metrics(s).items() if f == "nv_inference_request_success" and f'model="{name}"' in labels}
            assert list(family.values()) == [totals(s, name)[0]]
            until(lambda: history(s, name) == (sent[name], totals(s, name)[1]), 60, f"the history of {name}",
                  lambda: f"{history(s, name)}, want {sent[name]}")
        before = {name: history(s, name) for name in sent}
    again = Server(repo, tmp_path)
    again.log_path = tmp_path / "again.log"
    with again:  # G4: the history is unchanged after a restart
        for name in before:
            assert history(again, name) == before[name], f"G4: the history of {name} after a restart"
            assert sum(totals(again, name)) == 0, "statistics must start at zero after a restart"


def test_G2_counters_never_decrease(tmp_path):
    """Counters never fall under load or at a reload. An unload removes the model's counters."""
    repo = tmp_path / "models"
    model(repo, "slow", SLOW)
    table(repo)
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        last, stop, falls = {}, threading.Event(), []

        def watch():
            while not stop.is_set():
                now = metrics(s)
                for key, value in now.items():
                    if "pending" not in key[0] and value < last.get(key, 0):
                        falls.append((key, last[key], value))
                for key in last:
                    if key not in now:
                        falls.append((key, last[key], "gone"))
                last.update(now)

        watcher = threading.Thread(target=watch)
        watcher.start()
        load = threading.Thread(target=storm, args=(s, 6, 30))
        load.start()
        for n in range(5):
            for name in "slow", "table":
                with open(repo / name / "config.pbtxt", "a") as f:
                    f.write(f"# {n}\n")  # otherwise nothing is loaded again
                assert s.post(f"/v2/repository/models/{name}/load").status == 200
        load.join()
        stop.set()
        watcher.join()
        assert not falls, falls[:5]
        assert len(last) > 10
        assert s.post("/v2/repository/models/slow/unload").status == 200
        until(lambda: not any('model="slow"' in labels for _, labels in metrics(s)), 60,
              "the counters of the unloaded model still exist")


@pytest.mark.bounds
def test_G3_metrics_of_two_hundred_models_under_load(tmp_path):
    repo = tmp_path / "models"
    for n in range(200):
        model(repo, f"m{n:03}", FAST)
    with Server(repo, tmp_path) as s:
        stop = threading.Event()

        def client(k):
            n = k
            while not stop.is_set():
                assert s.post(f"/v2/models/m{n % 200:03}/infer", body(1, shape=(1,))).status == 200
                n += 7

        clients = [threading.Thread(target=client, args=(k,)) for k in range(8)]
        for c in clients:
            c.start()
        try:
            took = []
            for _ in range(9):
                begin = time.monotonic()
                found = metrics(s)
                took.append(time.monotonic() - begin)
                assert len({labels for f, labels in found if f == "nv_inference_count"}) == 200
            print(f"a scrape takes {sorted(took)[4] * 1000:.0f} ms, at most {max(took) * 1000:.0f} ms")
            assert not FULL or sorted(took)[4] < 0.2
        finally:
            stop.set()
            for c in clients:
                c.join()


def test_G3_label_values_are_escaped(tmp_path):
    """A name that needs escaping in the exposition format remains one label."""
    repo = tmp_path / "models"
    name = 'qu"ote'
    model(repo, name, FAST)
    model(repo, "plain", FAST)
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        text = s.request("GET", "/metrics", address=s.metrics).body.decode()
        label = re.compile(r'^\w+(\{(\w+="([^"\\\n]|\\["\\n])*"(,|(?=\})))*\})? \S+$')
        for line in text.splitlines():
            assert line.startswith("#") or label.match(line), line
        served = s.get('/v2/models/qu%22ote').status == 200
        assert served == ('model="qu\\"ote"' in text), "the model is not in the metrics under its escaped name"
