"""The manifests and the client of docs/examples/kserve, with the packages of make test-fleet. No cluster is here."""

import contextlib
import functools
import http.server
import json
import os
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


def strict(manifests):
    """What the Go types of KServe and Kubernetes say of manifests: the kinds and the fault."""
    done = subprocess.run([ROOT / ".cache/bin/strict"], input=json.dumps(manifests), capture_output=True, text=True)
    return json.loads(done.stdout or "null"), done.stderr.strip()


def test_G010_manifests_decode_into_the_types_of_kserve(env):
    found = [m for name in ("runtime", "service", "hpa") for m in parsed(env, (EXAMPLE / (name + ".yaml")).read_text())]
    kinds = ["serving.kserve.io/v1alpha1 ServingRuntime", "serving.kserve.io/v1beta1 InferenceService",
             "autoscaling/v2 HorizontalPodAutoscaler"]
    assert strict(found) == (kinds, "")
    runtime, service, hpa = found
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
    wanted = service["spec"]["predictor"]["model"]
    assert wanted["modelFormat"] in runtime["spec"]["supportedModelFormats"]
    assert wanted["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert hpa["spec"]["scaleTargetRef"]["name"] == service["metadata"]["name"] + "-predictor"


@pytest.mark.parametrize("old, new, fault", [
    ("supportedModelFormats", "modelFormats", 'unknown field "spec.modelFormats"'),
    ("periodSeconds: 2", "periodSeconds: two", "periodSeconds of type int32"),
    ("kind: ServingRuntime", "kind: Runtime", 'no kind "Runtime" is registered'),
])
def test_the_check_of_manifests_finds_faults(env, old, new, fault):
    text = (EXAMPLE / "runtime.yaml").read_text()
    assert fault in strict(parsed(env, text.replace(old, new)))[1]


def test_G010_kserves_clients_call_a_server_started_as_the_runtime_says(env):
    printed = run([EXAMPLE / "run.sh"], {**env, "HTTP_PORT": str(free_port()), "GRPC_PORT": str(free_port())})
    assert lines(printed) == lines(promised("kserve"))


@contextlib.contextmanager
def over_http(work):
    """An archive of the models at a web server. Yields the storageUri and what the initializer's environment needs."""
    archive = shutil.make_archive(work / "models", "gztar", work / "bucket/repository")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=work)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{os.path.basename(archive)}", {}
        finally:
            server.shutdown()


@contextlib.contextmanager
def in_a_bucket(work):
    """The models in a folder of a bucket of Google Cloud Storage."""
    port = free_port()
    with open(work / "gcs.log", "w") as log:
        storage = subprocess.Popen([ROOT / ".cache/bin/fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1",
                                    "-port", str(port), "-data", work, "-backend", "memory"], stdout=log, stderr=log)
    try:
        until(lambda: "server started at" in (work / "gcs.log").read_text(), 60, "the storage does not start",
              (work / "gcs.log").read_text)
        yield "gs://bucket/repository", {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
    finally:
        storage.terminate()
        storage.wait(60)


@pytest.mark.parametrize("place", [over_http, in_a_bucket])
def test_G010_what_the_storage_initializer_fetches_is_served(env, tmp_path, place):
    """The initializer's own code fills /mnt/models before the container of a pod starts."""
    shutil.copytree(ROOT / "models-sample/add_sub", tmp_path / "bucket/repository/add_sub")
    mounted = tmp_path / "mnt/models"
    with place(tmp_path) as (uri, more):
        run(["python", "-c", "import sys; from kserve_storage import Storage; Storage.download(*sys.argv[1:])", uri,
             mounted], {**env, **more})
    body = {"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [[2.0] * 16]}
                       for n in ("INPUT0", "INPUT1")]}
    with Server(mounted, tmp_path) as server:
        answer = server.post("/v2/models/add_sub/infer", body)
        assert answer.status == 200 and answer.json["outputs"][0]["data"] == [4.0] * 16, answer.body


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
