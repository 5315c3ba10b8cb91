"""Requests are recorded for the page: how they ended, who sent them, and where their time went."""

import collections
import json
import queue
import shutil
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from harness import LOADGEN, REFERENCE, ROOT, Server, until
from test_soak import build_loadgen

pytestmark = pytest.mark.skipif(REFERENCE, reason="the page is ours")

def shown(server, path="/api/requests?limit=1000"):
    return json.loads(server.request("GET", path, address=server.ui_address).body)


def inputs(module):
    values = np.arange(16, dtype=np.float32).reshape(1, 16)
    both = [module.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
    for i in both:
        i.set_data_from_numpy(values)
    return both


def models(folder, names):
    for name in names:
        shutil.copytree(ROOT / "models-sample" / name, folder / name)


def when_idle(server, count):
    """The recorded requests, when there are count: a request is recorded after its client has the answer."""
    done = threading.Event()
    for _ in range(200):
        got = shown(server)["requests"]
        if len(got) >= count:
            return got
        done.wait(0.05)
    raise AssertionError(f"{len(got)} requests are recorded, not {count}")


def test_every_request_is_recorded_with_its_outcome(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work", "--http-max-input-size=100000") as server:
        start = shown(server)["next"]
        with httpclient.InferenceServerClient(server.http) as http, grpcclient.InferenceServerClient(server.grpc) as rpc:
            for n in range(3):
                http.infer("add_sub", inputs(httpclient), request_id=f"http-{n}")
                rpc.infer("add_sub", inputs(grpcclient), request_id=f"grpc-{n}")
            answers = []
            rpc.start_stream(lambda result, error: answers.append(error))
            rpc.async_stream_infer("add_sub", inputs(grpcclient), request_id="stream-ok")
            rpc.async_stream_infer("absent", inputs(grpcclient), request_id="stream-absent")
            rpc.stop_stream()
            for client in (http, rpc):
                with pytest.raises(InferenceServerException):
                    client.infer("add_sub", [])
                with pytest.raises(InferenceServerException):
                    client.infer("absent", inputs(httpclient if client is http else grpcclient))
        assert server.request("POST", "/v2/models/add_sub/infer", b"x" * 100_001, {}).status == 413
        assert server.request("GET", "/no/such/path").status == 404
        when_idle(server, 14)
        got = shown(server, f"/api/requests?after={start}&limit=1000")["requests"]
        counts = collections.Counter((r["protocol"], r["outcome"], r["cause"]) for r in got)
        assert counts == {
            ("http", "ok", ""): 3, ("grpc", "ok", ""): 4, ("http", "refused", "invalid"): 1,
            ("http", "refused", "not_found"): 2, ("http", "refused", "too_large"): 1,
            ("grpc", "refused", "invalid"): 1, ("grpc", "refused", "not_found"): 2,
        }
        one = next(r for r in got if r["requestId"] == "http-1")
        assert (one["model"], one["version"], one["client"], one["status"]) == ("add_sub", "1", "127.0.0.1", 200)
        assert (one["bytesIn"], one["bytesOut"], one["batchRows"], one["batchRequests"]) == (128, 128, 1, 1)
        assert one["instance"].startswith("add_sub")
        for query, want in (("show=refused", 7), ("show=failed", 0), ("id=grpc-2", 1), ("text=STREAM-", 2),
                            ("model=absent", 3), ("client=127.0.0.1", 14), ("client=10.0.0.1", 0)):
            assert len(shown(server, f"/api/requests?{query}&after={start}")["requests"]) == want, query
        first = shown(server, "/api/requests?limit=5")
        assert first["more"] and len(first["requests"]) == 5
        rest = shown(server, f"/api/requests?limit=1000&before={first['requests'][-1]['id']}")["requests"]
        assert [r["id"] for r in first["requests"] + rest] == [r["id"] for r in shown(server)["requests"]]


def test_parts_add_up_to_the_servers_time(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work") as server:
        def statistics():
            reply = server.request("GET", "/v2/models/add_sub/stats")
            return json.loads(reply.body)["model_stats"][0]["inference_stats"]["success"]["ns"]

        with httpclient.InferenceServerClient(server.http) as http:
            for n in range(20):
                before = statistics()
                http.infer("add_sub", inputs(httpclient), request_id=f"r{n}")
                took = (statistics() - before) / 1000
                r = next(r for r in when_idle(server, n + 1) if r["requestId"] == f"r{n}")
                assert sum(r["phasesUs"]) == pytest.approx(r["durationUs"], abs=0.01)
                # Between the arrival and the final response, as the statistics have it.
                assert sum(r["phasesUs"][1:6]) == pytest.approx(took, rel=0.02)


ENSEMBLE = """
platform: "ensemble" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 16 ] } ]
ensemble_scheduling { step [
  { model_name: "add_sub" model_version: -1
    input_map [ { key: "INPUT0" value: "INPUT0" }, { key: "INPUT1" value: "INPUT1" } ]
    output_map [ { key: "OUTPUT0" value: "sum" }, { key: "OUTPUT1" value: "difference" } ] },
  { model_name: "add_sub" model_version: -1
    input_map [ { key: "INPUT0" value: "sum" }, { key: "INPUT1" value: "difference" } ]
    output_map [ { key: "OUTPUT0" value: "OUTPUT0" }, { key: "OUTPUT1" value: "OUTPUT1" } ] }
] }
"""


# Both steps run at the same time.
CONCURRENT = """
platform: "ensemble"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
output [ { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "B" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling { step [
  { model_name: "slow_a" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "A" } },
  { model_name: "slow_b" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "B" } }
] }
"""
SLOW = """
backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
parameters { key: "execute_delay_ms" value { string_value: "20" } }
"""
STREAM = """
backend: "python"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
"""


def tensor(module, name, values, datatype):
    t = module.InferInput(name, list(values.shape), datatype)
    t.set_data_from_numpy(values)
    return t


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A server with models of all kinds."""
    folder = tmp_path_factory.mktemp("models")
    models(folder, ["add_sub", "digits", "digits_pipeline"])
    made = {"twice": ENSEMBLE, "at_once": CONCURRENT, "slow_a": SLOW, "slow_b": SLOW, "stream": STREAM}
    for name, config in made.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
    shutil.copy2(ROOT / "build/conformance/python/stream.py", folder / "stream/1/model.py")
    with Server(folder, tmp_path_factory.mktemp("work")) as server:
        yield server


def over_grpc(server, model, given):
    with grpcclient.InferenceServerClient(server.grpc) as rpc:
        rpc.infer(model, given(grpcclient), request_id="it")


def over_http(server, model, given):
    with httpclient.InferenceServerClient(server.http) as http:
        http.infer(model, given(httpclient), request_id="it")  # with binary data both ways


def as_json(server, model, given):
    tensors = [i._get_tensor() for i in given(JSONTensors)]
    ins = [{key: t[key] for key in ("name", "shape", "datatype", "data")} for t in tensors]
    assert server.post(f"/v2/models/{model}/infer", {"id": "it", "inputs": ins}).status == 200


class JSONTensors:
    """As a module of tritonclient; its inputs are in JSON."""

    class InferInput(httpclient.InferInput):
        def set_data_from_numpy(self, values):
            return super().set_data_from_numpy(values, binary_data=False)


def streamed(server, model, given):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as rpc:
        rpc.start_stream(lambda result, error: answers.put(error))
        rpc.async_stream_infer(model, given(grpcclient), request_id="it")
        rpc.stop_stream()
    assert answers.get(timeout=60) is None


def picture(module):
    return [tensor(module, "picture", np.zeros((28, 28), np.uint8), "UINT8")]


def four(module):
    return [tensor(module, "INPUT0", np.ones(4, np.float32), "FP32")]


def number(module):
    return [tensor(module, "IN", np.array([5], np.int32), "INT32")]


@pytest.mark.parametrize(("send", "model", "given", "steps"), [
    (over_grpc, "add_sub", inputs, 0),
    (over_http, "add_sub", inputs, 0),
    (as_json, "add_sub", inputs, 0),
    (streamed, "add_sub", inputs, 0),
    (streamed, "stream", number, 0),
    (over_grpc, "twice", inputs, 2),
    (over_http, "at_once", four, 2),
    (over_grpc, "at_once", four, 2),
    (over_http, "digits_pipeline", picture, 1),
    (over_grpc, "digits_pipeline", picture, 1),
])
def test_parts_add_up_to_the_servers_time_for_each_kind_of_request(explained, send, model, given, steps):
    """The time from the arrival to the final response is that of the statistics. The page's parts add up to it."""
    def times():
        reply = json.loads(explained.request("GET", "/v2/models/stats").body)
        return {m["name"]: m["inference_stats"]["success"]["ns"] / 1000 for m in reply["model_stats"]}

    known = shown(explained)["next"]
    before = times()
    send(explained, model, given)
    it, = until(lambda: shown(explained, f"/api/requests?id=it&after={known}")["requests"], 60, "it is not recorded")
    took = {name: us - before[name] for name, us in times().items()}
    detail = shown(explained, f"/api/requests/{it['id']}")
    assert len(detail["steps"]) == steps
    of_model = collections.Counter()
    for r in [detail["request"], *detail["steps"]]:
        assert r["outcome"] == "ok" and min(r["phasesUs"]) >= 0
        assert sum(r["phasesUs"]) == pytest.approx(r["durationUs"], abs=0.01)
        of_model[r["model"]] += sum(r["phasesUs"][1:6])
    assert of_model == pytest.approx({name: us for name, us in took.items() if us}, rel=0.02)
    assert all(s["durationUs"] <= it["durationUs"] for s in detail["steps"])


def check_steps(server, parent, kind, wanted):
    detail = shown(server, f"/api/requests/{parent['id']}")
    assert [s["model"] for s in detail["steps"]] == wanted
    for s in detail["steps"]:
        assert (s["parent"], s["protocol"], s["client"], s["outcome"]) == (parent["id"], kind, "", "ok")
        assert parent["tMs"] <= s["tMs"] and s["durationUs"] <= parent["durationUs"]


def test_steps_of_an_ensemble_are_below_their_request(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    (tmp_path / "models" / "twice" / "1").mkdir(parents=True)
    (tmp_path / "models" / "twice" / "config.pbtxt").write_text(ENSEMBLE)
    with Server(tmp_path / "models", tmp_path / "work") as server:
        with httpclient.InferenceServerClient(server.http) as http:
            http.infer("twice", inputs(httpclient))
        parent, = when_idle(server, 1)
        assert parent["model"] == "twice" and parent["instance"] == ""
        check_steps(server, parent, "ensemble", ["add_sub", "add_sub"])
        assert len(shown(server, "/api/requests?model=add_sub")["requests"]) == 2


def test_calls_of_a_model_are_below_its_request(tmp_path):
    models(tmp_path / "models", ["digits", "digits_pipeline"])
    with Server(tmp_path / "models", tmp_path / "work") as server:
        with grpcclient.InferenceServerClient(server.grpc) as rpc:
            picture = grpcclient.InferInput("picture", [28, 28], "UINT8")
            picture.set_data_from_numpy(np.zeros((28, 28), np.uint8))
            rpc.infer("digits_pipeline", [picture])
        parent, = when_idle(server, 1)
        check_steps(server, parent, "bls", ["digits"])


def test_requests_are_not_recorded_if_the_option_says_so(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work", "--record-requests=false") as server:
        with httpclient.InferenceServerClient(server.http) as http:
            http.infer("add_sub", inputs(httpclient))
        assert shown(server) == {"requests": [], "next": 0, "more": False, "missed": 0, "leftOut": 0, "off": True,
                                 "keeps": False,
                                 "oldestMs": 0, "dropped": 0}


def ordinary(server, count):
    """Sends requests until the server has counted so many."""
    def counted():
        reply = server.request("GET", "/v2/models/add_sub/stats")
        return json.loads(reply.body)["model_stats"][0]["inference_stats"]["success"]["count"]

    while counted() < count:
        done = subprocess.run(
            [LOADGEN, "-json", "-u", server.http, "-m", "add_sub", "-in", "INPUT0:FP32:1,16;INPUT1:FP32:1,16", "-c",
             "16",
             "-w", "0s", "-d", "500ms"], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["errors"] == 0, done.stdout


def test_problems_are_kept_over_many_ordinary_requests_and_a_restart(tmp_path):
    build_loadgen()
    models(tmp_path / "models", ["add_sub"])
    moody = tmp_path / "models" / "moody"
    (moody / "1").mkdir(parents=True)
    shutil.copy2(ROOT / "build/conformance/python/moody.py", moody / "1/model.py")
    tensor = '[ { name: "%sPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]'
    (moody / "config.pbtxt").write_text(f'backend: "python" input {tensor % "IN"} output {tensor % "OUT"}')
    with Server(tmp_path / "models", tmp_path / "work") as server:
        with httpclient.InferenceServerClient(server.http) as http:
            number = httpclient.InferInput("INPUT0", [1], "INT32")
            number.set_data_from_numpy(np.array([1], np.int32))
            for model, what, name in (("moody", [number], "it-failed"), ("add_sub", [], "it-was-refused")):
                with pytest.raises(InferenceServerException):
                    http.infer(model, what, request_id=name)
        when_idle(server, 2)
        ordinary(server, 20_000)
        oldest = min(r["id"] for r in shown(server, "/api/requests?show=problems&limit=1000")["requests"])
        check_kept(server)
        page = shown(server, "/api/requests?limit=100")
        seen = []
        while page["requests"]:  # all pages
            seen += [r["id"] for r in page["requests"]]
            page = shown(server, f"/api/requests?limit=1000&before={seen[-1]}")
        assert seen == sorted(set(seen), reverse=True) and not page["more"]
        assert 8192 < len(seen) < 20_000  # those in memory, and a sample of the others
        assert server.stop() == 0
    with Server(tmp_path / "models", tmp_path / "work") as server:
        check_kept(server)
        got = shown(server, "/api/requests?limit=100")
        assert got["more"] and got["keeps"] and got["oldestMs"] * 1000 == pytest.approx(oldest, abs=1)
        assert all(r["outcome"] == "ok" or r["requestId"] for r in got["requests"])


def check_kept(server):
    """The two requests with a problem are found by each filter, and explain themselves."""
    for query, want in (("show=failed", ["it-failed"]), ("show=refused", ["it-was-refused"]),
                        ("model=moody", ["it-failed"]), ("id=it-failed", ["it-failed"]),
                        ("text=CODE%201", ["it-failed"]), ("show=failed&model=add_sub", []),
                        ("show=refused&client=127.0.0.1", ["it-was-refused"]), ("show=failed&to=1000", [])):
        got = shown(server, f"/api/requests?{query}")["requests"]
        assert [r["requestId"] for r in got] == want, query
    failed, = shown(server, "/api/requests?show=failed")["requests"]
    got = shown(server, f"/api/requests?show=failed&from={int(failed['tMs'])}&to={int(failed['tMs']) + 2}")["requests"]
    assert got == [failed]
    assert (failed["status"], failed["model"], failed["version"]) == (500, "moody", "1") and failed["durationUs"] > 0
    assert shown(server, f"/api/requests/{failed['id']}")["request"] == failed


def test_no_more_requests_are_kept_than_the_option_says(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work", "--keep-requests=0") as server:
        with httpclient.InferenceServerClient(server.http) as http:
            with pytest.raises(InferenceServerException):
                http.infer("absent", inputs(httpclient))
        when_idle(server, 1)
        assert not shown(server)["keeps"]
        assert server.stop() == 0
    with Server(tmp_path / "models", tmp_path / "work") as server:
        got = shown(server)
        assert got["requests"] == [] and got["keeps"] and got["oldestMs"] == 0


def test_steps_are_kept_with_their_request(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    (tmp_path / "models" / "twice" / "1").mkdir(parents=True)
    (tmp_path / "models" / "twice" / "config.pbtxt").write_text(ENSEMBLE)
    with Server(tmp_path / "models", tmp_path / "work") as server:
        with httpclient.InferenceServerClient(server.http) as http:
            http.infer("twice", inputs(httpclient))
        parent, = when_idle(server, 1)
        assert server.stop() == 0
    with Server(tmp_path / "models", tmp_path / "work") as server:
        assert shown(server)["requests"] == [parent]
        check_steps(server, parent, "ensemble", ["add_sub", "add_sub"])
        assert len(shown(server, "/api/requests?model=add_sub")["requests"]) == 2
