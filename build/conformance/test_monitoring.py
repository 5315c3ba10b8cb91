"""The files for Grafana and Prometheus name metrics and labels that the server has, and the limits in force."""

import json
import re
import subprocess

import pytest

from gpus import Machine
from harness import REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="these files are ours")

CONFIG = """backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }
response_cache { enable: true }
"""
BY_PROMETHEUS = {"instance"}  # labels that it adds


def write(repo, *names):
    for name in names:
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text(CONFIG)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo, work = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("work")
    write(repo, "m", "quiet")
    command = Machine(tmp_path_factory.mktemp("machine")).command()
    with Server(repo, work, "--cache-config=local,size=1000000", command=command) as s:
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert s.post("/v2/models/m/infer", body).status == 200
        assert s.post("/v2/models/unknown/infer", body).status == 404
        rules = {"rules": [{"kind": "p99", "on": True, "limit": 20000}, {"kind": "queue", "on": True, "limit": 7},
                           {"kind": "memory", "on": True, "limit": 1e9}]}
        off = {"rules": [{"kind": "failures", "on": False, "limit": 0}]}
        for model, value in (("m", rules), ("quiet", off)):
            assert ui(s, f"/api/models/{model}/alerts", value).status == 200
        yield s


def ui(s, path, value=None):
    address = s.ui_address
    if value is None:
        return s.request("GET", path, address=address)
    return s.request("PUT", path, json.dumps(value), {"X-Nereid": "1", "Content-Type": "application/json"}, address)


def served(s):
    """The labels of each metric that the server has, by its name."""
    found = {}
    for line in s.request("GET", "/metrics", address=s.metrics).body.decode().splitlines():
        if family := re.match(r"# TYPE (\w+)", line):
            found.setdefault(family[1], set())
        elif sample := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    return found


def parsed(rules="", queries=()):
    """What rules and queries use, by the parsers of Prometheus. It fails for those that Prometheus would refuse."""
    queries = [q.replace("$__rate_interval", "5m") for q in queries]  # Grafana fills it in
    return json.loads(subprocess.run(["go", "run", "."], cwd=ROOT / "build/promql", check=True, stdout=subprocess.PIPE,
                                     input=json.dumps({"rules": rules, "queries": queries}), text=True).stdout)


def check(uses, metrics):
    """Checks that the server has the metrics of a query, with the labels that the query names."""
    assert uses
    for use in uses:
        assert use["metric"] in metrics and set(use["labels"] or ()) <= metrics[use["metric"]] | BY_PROMETHEUS, use


def test_a_dashboard_names_what_is_there(server):
    reply = ui(server, "/api/monitoring/dashboard")
    assert reply.status == 200 and "attachment" in reply.headers["content-disposition"]
    dashboard = reply.json
    metrics = until(lambda: (m := served(server)).get("nv_gpu_memory_used_bytes") and m, 30, "no metrics of GPUs")
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]}
    assert len(places) == len(dashboard["panels"]) > 10
    targets = [t for p in dashboard["panels"] for t in p["targets"]]
    for target, uses in zip(targets, parsed(queries=[t["expr"] for t in targets])["queries"], strict=True):
        check(uses, metrics)
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= metrics[uses[0]["metric"]] | BY_PROMETHEUS, target
    for variable in dashboard["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
        assert label in metrics[metric] | BY_PROMETHEUS


def test_alert_rules_have_the_limits_in_force(server):
    rules = parsed(ui(server, "/api/monitoring/rules").body.decode())["rules"]
    metrics = served(server)
    metrics["up"] = {"job"}  # Prometheus has it for each server that it scrapes
    metrics["nereid_build_info"].add("job")
    for rule in rules:
        check(rule["uses"], metrics)
    gone = {use["metric"] for use in rules[0]["uses"]}
    assert gone == {"up", "nereid_build_info"}, "it names each server that is gone, also if others are there"
    found = {(rule["alert"], rule["uses"][0]["equal"].get("model")): rule["expr"] for rule in rules}
    assert set(found) == {("NereidIsGone", None), ("NereidModelFails", "m"), ("NereidModelIsSlow", "m"),
                          ("NereidQueueIsLong", "m"), ("NereidRefusesRequests", None)}
    assert "> 0.1 and" in found["NereidRefusesRequests", None]
    assert "> 0.02 and" in found["NereidModelIsSlow", "m"]
    assert found["NereidQueueIsLong", "m"].endswith("> 7")
    assert "> 0.05 and" in found["NereidModelFails", "m"]


def test_metrics_are_listed_with_a_query_each(server):
    assert server.post("/v2/models/m/infer", {"inputs": [
        {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}).status == 200
    metrics = served(server)
    families = ui(server, "/api/metrics").json["families"]
    for family, uses in zip(families, parsed(queries=[f["query"] for f in families])["queries"], strict=True):
        for use in uses:
            assert use["metric"].startswith(family["name"]) and use["metric"] in metrics, (family["name"], use)
    found = {f["name"]: f for f in families}
    text = server.request("GET", "/metrics", address=server.metrics).body.decode()
    assert [f["name"] for f in families] == re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert found["nv_inference_request_success"]["query"] == "rate(nv_inference_request_success[5m])"
    latency = found["nereid_inference_request_duration_seconds"]
    assert latency["type"] == "histogram" and "histogram_quantile(0.99, " in latency["query"]
    assert latency["total"] == len(latency["samples"]) == 2 * 2  # _sum and _count of two models
    success = found["nv_inference_request_success"]
    assert success["type"] == "counter" and "successful" in success["help"]
    values = {tuple(label["value"] for label in s["labels"]): int(s["value"]) for s in success["samples"]}
    assert values[("m", "1")] >= 2 and values[("quiet", "1")] == 0


def test_without_history_there_are_no_limits(tmp_path):
    write(tmp_path / "models", "m")
    with Server(tmp_path / "models", tmp_path / "work", "--history=false") as s:
        rules = parsed(ui(s, "/api/monitoring/rules").body.decode())["rules"]
        assert [rule["alert"] for rule in rules] == ["NereidIsGone"]
