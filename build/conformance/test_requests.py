"""Requests are recorded for the page: how they ended, who sent them, and where their time went."""

import collections
import json
import shutil
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, ROOT, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="the page is ours")

def shown(server, path="/api/requests?limit=1000"):
    return json.loads(server.request("GET", path, address=server.ui.removeprefix("http://")).body)


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
        assert shown(server) == {"requests": [], "next": 0, "more": False, "missed": 0, "leftOut": 0, "off": True}
