"""The manifests and the client of docs/examples/kserve, with the packages of make test-fleet. No cluster is here."""

import json
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest

from fleet import EXAMPLES, environment, lines, promised, run
from harness import ROOT, Server, free_port, until

pytestmark = pytest.mark.fleet

EXAMPLE = EXAMPLES / "kserve"
READ = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"


@pytest.fixture(scope="module")
def env():
    return environment("kserve")


def parsed(env, text):
    return json.loads(subprocess.run(["python", "-c", READ], input=text, env=env, capture_output=True, text=True,
                                     check=True).stdout)


def strict(env, manifests):
    """What strict.py says of manifests: the kinds and the fault."""
    done = subprocess.run(["python", ROOT / "build/fleet/strict.py"], input=json.dumps(manifests), env=env,
                          capture_output=True, text=True)
    return json.loads(done.stdout or "null"), done.stderr.strip()


def test_G010_manifests_decode_into_the_types_of_kserve(env):
    found = [m for name in ("runtime", "service", "hpa") for m in parsed(env, (EXAMPLE / (name + ".yaml")).read_text())]
    kinds = ["V1alpha1ServingRuntime", "V1beta1InferenceService", "V2HorizontalPodAutoscaler"]
    assert strict(env, found) == (kinds, "")
    runtime, service, hpa = found
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
    wanted = service["spec"]["predictor"]["model"]
    assert wanted["modelFormat"] in runtime["spec"]["supportedModelFormats"]
    assert wanted["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert hpa["spec"]["scaleTargetRef"]["name"] == service["metadata"]["name"] + "-predictor"


@pytest.mark.parametrize("old, new, fault", [
    ("supportedModelFormats", "modelFormats", "unknown field modelFormats of V1alpha1ServingRuntimeSpec"),
    ("periodSeconds: 2", "periodSeconds: two", "'two' is not of the type int"),
    ("name: kserve-container", "imagePullPolicy: Always", "Field required"),
])
def test_the_check_of_manifests_finds_faults(env, old, new, fault):
    text = (EXAMPLE / "runtime.yaml").read_text()
    assert fault in strict(env, parsed(env, text.replace(old, new)))[1]


def test_G010_kserves_clients_call_a_server_started_as_the_runtime_says(env):
    printed = run([EXAMPLE / "run.sh"], {**env, "HTTP_PORT": str(free_port()), "GRPC_PORT": str(free_port())})
    assert lines(printed) == lines(promised("kserve"))


class Prometheus:
    """A real Prometheus that scrapes a server each second, with the labels that it has in a cluster."""

    def __init__(self, work, target):
        self.url = f"127.0.0.1:{free_port()}"
        settings = work / "prometheus.yml"
        settings.write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "pods", "static_configs": [
                {"targets": [target], "labels": {"namespace": "default", "pod": "digits-0"}}]}]}))
        self.log = work / "prometheus.log"
        program = ROOT / ".cache/bin/prometheus"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program, f"--config.file={settings}", f"--storage.tsdb.path={work / 'tsdb'}",
                 f"--web.listen-address={self.url}"], stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def query(self, text):
        """The value of the only series of a query, None without one."""
        try:
            path = "/api/v1/query?" + urllib.parse.urlencode({"query": text})
            with urllib.request.urlopen(f"http://{self.url}{path}") as r:
                found = json.load(r)["data"]["result"]
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return None
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


def adapter_queries(env):
    """The queries of the adapter for one pod, by the name of the metric, filled in as the adapter does."""
    (values,) = parsed(env, (EXAMPLE / "prometheus-adapter.yaml").read_text())
    matchers = 'namespace="default",pod=~"digits-0"'
    return {r["name"]["as"]: r["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", matchers)
            for r in values["rules"]["custom"]}


def test_G013_the_metrics_of_the_autoscaler_rise_when_requests_wait(env, tmp_path):
    """The queries are those of prometheus-adapter.yaml, the targets those of hpa.yaml; Prometheus is the real one."""
    queries = adapter_queries(env)
    (hpa,) = parsed(env, (EXAMPLE / "hpa.yaml").read_text())
    targets = {m["pods"]["metric"]["name"]: float(m["pods"]["target"]["averageValue"]) for m in hpa["spec"]["metrics"]}
    assert set(targets) == set(queries)
    shutil.copytree(EXAMPLES / "ray/models/slow", tmp_path / "models/slow")
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            assert server.post("/v2/models/slow/infer", body).status == 200

    with Server(tmp_path / "models", tmp_path) as server, Prometheus(tmp_path, server.metrics) as prometheus:
        for name, query in queries.items():  # not NaN, which would stop the autoscaler
            until(lambda: prometheus.query(query) == 0, 60, f"{name} of an idle server is not 0",
                  prometheus.log.read_text)
        clients = [threading.Thread(target=ask) for _ in range(16)]
        try:
            for c in clients:
                c.start()
            for name, query in queries.items():
                until(lambda: (prometheus.query(query) or 0) > targets[name], 60, f"{name} stays below {targets[name]}",
                      lambda: str(prometheus.query(query)))
        finally:
            stop.set()
            for c in clients:
                c.join()
