"""--metrics-config: latency metrics that exist only if the option enables them."""

import queue
import re
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th

from harness import BINARY, REFERENCE, Server, deviates
from test_metrics import samples, scrape

SUMMARIES = {
    "nv_inference_request_summary_us": "Summary of inference request duration in microseconds (includes cached "
                                       "requests)",
    "nv_inference_queue_summary_us": "Summary of inference queuing duration in microseconds (includes cached requests)",
    "nv_inference_compute_input_summary_us": "Cumulative compute input duration in microseconds (does not include "
                                             "cached requests)",
    "nv_inference_compute_infer_summary_us": "Cumulative compute inference duration in microseconds (does not include "
                                             "cached requests)",
    "nv_inference_compute_output_summary_us": "Cumulative inference compute output duration in microseconds (does not "
                                              "include cached requests)",
    "nv_cache_hit_summary_per_model": "Summary of cache hit counts/durations per model, in microseconds.",
    "nv_cache_miss_summary_per_model": "Summary of cache miss counts/durations per model, in microseconds.",
}
DEFAULT_QUANTILES = ["0.5", "0.9", "0.95", "0.99", "0.999"]

CONFIG = """backend: "python"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
ECHO = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]) for x in inputs]
"""
TOKENS = """import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
            time.sleep(0.03)
            sender = r.get_response_sender()
            for _ in range(int(x[0][0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def write(repo, name, more="", code=ECHO):
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "config.pbtxt").write_text(CONFIG + more)
    (repo / name / "1/model.py").write_text(code)


@pytest.fixture
def repo(tmp_path):
    r = tmp_path / "models"
    write(r, "echo")
    write(r, "cached", "response_cache { enable: true }\n")
    return r


def options(*settings):
    return ["--cache-config=local,size=1048576", *(f"--metrics-config={s}" for s in settings)]


def infer(server, model, *values):
    with th.InferenceServerClient(server.http) as c:
        for v in values:
            i = th.InferInput("IN", [1, 4], "FP32")
            i.set_data_from_numpy(np.full([1, 4], v, np.float32))
            assert (c.infer(model, [i]).as_numpy("OUT") == v).all()


def quantiles(text, family, model):
    return re.findall(rf'^{family}\{{model="{model}",version="1",quantile="([^"]*)"\}} (\S+)$', text, re.M)


def test_E015_E016_E017_I015_summaries(repo, tmp_path):
    with Server(repo, tmp_path, *options("summary_latencies=true")) as s:
        idle = scrape(s)
        assert quantiles(idle, "nv_inference_queue_summary_us", "echo") == [(q, "Nan") for q in DEFAULT_QUANTILES]
        infer(s, "echo", 1, 2, 3)
        infer(s, "cached", 1, 1, 1, 2)
        text = scrape(s)
    for family, help_ in SUMMARIES.items():
        assert f"# HELP {family} {help_}\n# TYPE {family} summary\n{family}_count{{" in text, family
    assert re.findall(r"^# TYPE (\S+) summary", text, re.M) == list(SUMMARIES)
    v = samples(text)
    echo, cached = '{model="echo",version="1"}', '{model="cached",version="1"}'
    for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        family = f"nv_inference_{phase}_summary_us"
        assert v[f"{family}_count{echo}"] == 3, family
        assert abs(v[f"{family}_sum{echo}"] - v[f"nv_inference_{phase}_duration_us{echo}"]) <= 3, family
        found = quantiles(text, family, "echo")
        assert [q for q, _ in found] == DEFAULT_QUANTILES
        assert 0 <= float(found[0][1]) <= float(found[-1][1]) <= v[f"{family}_sum{echo}"], (family, found)
    requests = "nv_inference_request_summary_us_count" + cached
    assert requests not in v, "the request time does not include the insertion into the cache"
    assert v["nv_inference_queue_summary_us_count" + cached] == 4  # cache hits count too
    assert v["nv_inference_compute_infer_summary_us_count" + cached] == 2
    assert (v["nv_cache_hit_summary_per_model_count" + cached],
            v["nv_cache_miss_summary_per_model_count" + cached]) == (2, 2)
    assert "nv_cache_hit_summary_per_model_count" + echo not in v


def test_E017_H070_quantiles_without_counters_DV74(repo, tmp_path):
    with Server(repo, tmp_path, *options("summary_latencies=true", "counter_latencies=false",
                                         "summary_quantiles=0.1:0.1,0.75:0.01")) as s:
        infer(s, "echo", 1, 2)
        infer(s, "cached", 1, 1)
        text = scrape(s)
    for family in SUMMARIES:
        model = "cached" if "cache" in family else "echo"
        assert [q for q, _ in quantiles(text, family, model)] == ["0.1", "0.75"], family
    for word in ("_duration_us", "nv_cache_num_hits_per_model", "nv_cache_miss_duration_per_model"):
        assert not re.search(rf"^\w*{word}", text, re.M), word
    assert samples(text)['nv_inference_request_success{model="echo",version="1"}'] == deviates(0, 2)


@pytest.mark.skipif(REFERENCE, reason="2.51 has no histograms")
def test_E014_E018_I015_histograms(repo, tmp_path):
    family = "nv_inference_first_response_histogram_ms"
    decoupled = "model_transaction_policy { decoupled: true }\n"
    write(repo, "tokens", decoupled, TOKENS)
    write(repo, "chosen", decoupled + "model_metrics { metric_control [\n"
          f'{{ metric_identifier {{ family: "{family}" }} histogram_options {{ buckets: [ -1, 0.0, 1, 2.5 ] }} }},\n'
          '{ metric_identifier { family: "nosuch" } histogram_options { buckets: [ 1 ] } } ] }\n', TOKENS)
    with Server(repo, tmp_path, *options("histogram_latencies=true")) as s:
        assert "nosuch" in s.log()
        infer(s, "echo", 1, 2, 3)
        for model in ("tokens", "chosen"):
            for n in (3, 1):
                assert stream(s, model, n) == n
        text = scrape(s)
        v = samples(text)
    head = f"# HELP {family} Duration from request to first response in milliseconds\n# TYPE {family} histogram\n"
    assert head in text

    def buckets(name, model):
        return dict(re.findall(rf'^{name}_bucket\{{model="{model}",version="1",le="([^"]*)"\}} (\d+)$', text, re.M))

    assert list(buckets(family, "tokens")) == ["100", "500", "2000", "5000", "+Inf"]
    assert buckets(family, "chosen") == {"-1": "0", "0": "0", "1": "0", "2.5": "0", "+Inf": "2"}
    for model in ("tokens", "chosen"):
        labels = f'{{model="{model}",version="1"}}'
        assert v[f"{family}_count{labels}"] == 2 and v[f"{family}_sum{labels}"] >= 60
    assert f'{family}_count{{model="echo",version="1"}}' not in v
    for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        name = f"nv_inference_{phase}_duration_histogram_us"
        counts = [int(n) for n in buckets(name, "echo").values()]
        assert len(counts) == 6 and counts == sorted(counts) and counts[-1] == 3, (name, counts)
        assert v[name + '_count{model="echo",version="1"}'] == 3
    assert "summary" not in text


def stream(server, model, n):
    """Sends a request with n responses. Returns the number of received responses."""
    with tg.InferenceServerClient(server.grpc) as c:
        got = queue.Queue()
        c.start_stream(lambda result, error: got.put((result, error)))
        i = tg.InferInput("IN", [1, 4], "FP32")
        i.set_data_from_numpy(np.full([1, 4], n, np.float32))
        c.async_stream_infer(model, [i], enable_empty_final_response=True)
        seen = 0
        while True:
            result, error = got.get(timeout=30)
            assert error is None, error
            if result.get_response().parameters["triton_final_response"].bool_param:
                return seen
            seen += 1


@pytest.mark.parametrize("value", ["summary_latencies", "a,summary_latencies=true", "summary_latencies="])
def test_E017_malformed_settings_are_refused(good, tmp_path, value):
    with pytest.raises(AssertionError, match=r"option format is <setting>=<value>|the format is <setting>=<value>"):
        with Server(good, tmp_path, f"--metrics-config={value}"):
            pass


@pytest.mark.parametrize("value",
                         ["nosuch=1", "summary_quantiles=0.5", "summary_quantiles=x:y", "summary_latencies=perhaps"])
def test_E017_DV75_unknown_settings_are_refused_by_name(good, tmp_path, value):
    if REFERENCE:
        with Server(good, tmp_path, f"--metrics-config={value}") as s:
            assert "summary" not in scrape(s)
        return
    p = subprocess.run([BINARY, "serve", f"--model-repository={good}", f"--data-dir={tmp_path}",
                        f"--metrics-config={value}"],
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and value.split("=")[0] in p.stderr, p.stderr
