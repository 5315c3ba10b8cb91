"""The metrics port: Triton's names, labels, help texts and types, and correct counts."""

import http.client
import re

import numpy as np
import tritonclient.http as th

from harness import Server, deviates, until

# family: (type, help), in Triton's order
FAMILIES = {
    "nv_inference_request_success": ("counter", "Number of successful inference requests, all batch sizes"),
    "nv_inference_request_failure": ("counter", "Number of failed inference requests, all batch sizes"),
    "nv_inference_count": ("counter", "Number of inferences performed (does not include cached requests)"),
    "nv_inference_exec_count": ("counter", "Number of model executions performed (does not include cached requests)"),
    "nv_inference_request_duration_us": ("counter", "Cumulative inference request duration in microseconds (includes "
                                                    "cached requests)"),
    "nv_inference_queue_duration_us": ("counter", "Cumulative inference queuing duration in microseconds (includes "
                                                  "cached requests)"),
    "nv_inference_compute_input_duration_us": ("counter", "Cumulative compute input duration in microseconds (does not "
                                                          "include cached requests)"),
    "nv_inference_compute_infer_duration_us": ("counter", "Cumulative compute inference duration in microseconds (does "
                                                          "not include cached requests)"),
    "nv_inference_compute_output_duration_us": ("counter", "Cumulative inference compute output duration in "
                                                           "microseconds (does not include cached requests)"),
    "nv_inference_pending_request_count": ("gauge",
                                           "Instantaneous number of pending requests awaiting execution per-model."),
    "nv_cpu_utilization": ("gauge", "CPU utilization rate [0.0 - 1.0]"),
    "nv_cpu_memory_total_bytes": ("gauge", "CPU total memory (RAM), in bytes"),
    "nv_cpu_memory_used_bytes": ("gauge", "CPU used memory (RAM), in bytes"),
}


def scrape(server):
    a = server.request("GET", "/metrics", address=server.metrics)
    assert a.status == 200 and a.headers["content-type"].startswith("text/plain; charset=utf-8")
    return a.body.decode()


def samples(text):
    return {
        m[1]: float(m[2]) for m in re.finditer(r"^([a-zA-Z_][\w]*(?:\{[^}]*\})?) ([0-9.eE+-]+)$", text, re.M)
    }


def test_B019_DV25_metrics_port(server):
    scrape(server)
    refused = server.request("POST", "/metrics", address=server.metrics)
    assert (refused.status, refused.json) == (405, {"error": "Method Not Allowed"})
    for method, path, status in (("POST", "/metrics", 405), ("PUT", "/metrics", 405), ("HEAD", "/metrics", 405),
                                 ("GET", "/nosuch", deviates(200, 404))):
        assert server.request(method, path, address=server.metrics).status == status, (method, path)


def test_E001_E010_E030_families_help_and_type(server):
    text = scrape(server)
    for name, (kind, help_) in FAMILIES.items():
        assert f"# HELP {name} {help_}\n# TYPE {name} {kind}\n" in text, name
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .+|[a-zA-Z_]\w*(\{[^}]*\})? [0-9.eE+-]+", line), line
    order = [n for n in re.findall(r"^# TYPE (\S+)", text, re.M) if n in FAMILIES]
    assert order == list(FAMILIES)


def test_E001_E003_E004_E005_counts(good, tmp_path):
    with Server(good, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        labels = '{model="plain",version="1"}'
        zero = samples(scrape(s))
        assert zero["nv_inference_request_success" + labels] == 0 and zero["nv_inference_count" + labels] == 0
        x = np.ones([2, 16], np.float32)
        i = th.InferInput("INPUT0", x.shape, "FP32")
        i.set_data_from_numpy(x)
        for _ in range(3):
            c.infer("plain", [i])
        got = samples(scrape(s))
        assert got["nv_inference_request_success" + labels] == 3
        assert got["nv_inference_count" + labels] == 6
        assert got["nv_inference_exec_count" + labels] == 3
        assert got["nv_inference_pending_request_count" + labels] == 0
        total = got["nv_inference_request_duration_us" + labels]
        parts = sum(got[f"nv_inference_{p}_duration_us" + labels]
                    for p in ("queue", "compute_input", "compute_infer", "compute_output"))
        assert 0 < parts <= total + 4  # each duration is truncated to whole microseconds


def test_E002_failures_have_four_reasons(server):
    text = scrape(server)
    for reason in ("OTHER", "BACKEND", "CANCELED", "REJECTED"):
        assert re.search(rf'^nv_inference_request_failure\{{model="plain",reason="{reason}",version="1"\}} \d+$', text,
                         re.M), reason


def test_E030_refused_requests_are_not_counted(server):
    name = 'nv_inference_request_failure{model="plain",reason="OTHER",version="1"}'
    before = samples(scrape(server))
    assert server.post("/v2/models/plain/infer", {"inputs": []}).status == 400
    after = samples(scrape(server))
    assert after[name] == before[name]
    ok = 'nv_inference_request_success{model="plain",version="1"}'
    assert after[ok] == before[ok]


def test_E030_series_exist_while_the_model_is_loaded(explicit):
    def has():
        return 'nv_inference_count{model="plain",version="1"}' in scrape(explicit)

    assert not has()
    explicit.post("/v2/repository/models/plain/load")
    assert has()
    explicit.post("/v2/repository/models/plain/unload")
    until(lambda: not has(), 60, "the series of the unloaded model still exist")


def test_B019_keep_alive(server):
    conn = http.client.HTTPConnection(server.metrics)
    for _ in range(3):
        conn.request("GET", "/metrics")
        assert b"nv_inference_count" in conn.getresponse().read()
    conn.close()
