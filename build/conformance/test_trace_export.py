"""Traces of a limited number, and the export to an OpenTelemetry collector."""

import gzip
import http.server
import json
import re
import subprocess
import threading

import numpy as np
import pytest
import requests
import tritonclient.http as th

import models
from harness import BINARY, REFERENCE, Server, until


def infer(client, model="sums"):
    a = np.zeros((1, 16), np.int32)
    inputs = [th.InferInput(n, a.shape, "INT32") for n in ("INPUT0", "INPUT1")]
    for i in inputs:
        i.set_data_from_numpy(a)
    client.infer(model, inputs)


class Collector:
    """An OTLP/HTTP collector that keeps the bodies of the exports."""

    def __enter__(self):
        bodies = self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                bodies.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def address(self):
        return "localhost:%d/v1/traces" % self.server.server_port


@pytest.mark.skipif(REFERENCE, reason="the collector reads protobuf")
@pytest.mark.parametrize("scheme", ["", "http://"])
@pytest.mark.parametrize("delay", ["0", "100"])
def test_E042_H071_traces_reach_a_collector(good, tmp_path, scheme, delay):
    """The address of the collector may be written without http://, as in Triton's own tests."""
    with Collector() as c:
        options = ("level=TIMESTAMPS", "rate=1", "mode=opentelemetry", f"opentelemetry,url={scheme}{c.address}",
                   f"opentelemetry,bsp_schedule_delay={delay}")
        with Server(good, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
            with th.InferenceServerClient(s.http) as client:
                infer(client)
                settings = client.get_trace_settings()
            until(lambda: any(b"InferRequest" in body for _, body in c.bodies), 60, "no spans arrive")
    assert b"sums" in b"".join(body for _, body in c.bodies)
    assert {path for path, _ in c.bodies} == {"/v1/traces"}
    # A client sees what was written.
    assert (settings["url"], settings["bsp_schedule_delay"]) == (scheme + c.address, delay)


@pytest.mark.skipif(REFERENCE, reason="Triton starts, and drops the traces")
@pytest.mark.parametrize("url", ["http://", "http://a b/", "ftp://localhost/v1/traces"])
def test_E042_an_address_that_is_none_is_refused(good, tmp_path, url):
    run = subprocess.run(
        [BINARY, f"--model-repository={good}",
         "--http-port=0", "--grpc-port=0", "--metrics-port=0", f"--data-dir={tmp_path}/data",
         "--trace-config=mode=opentelemetry", f"--trace-config=opentelemetry,url={url}"],
        capture_output=True, text=True, timeout=60)
    assert run.returncode != 0 and "opentelemetry,url" in run.stderr + run.stdout


def test_E038_fewer_traces_than_counted_are_in_the_file_without_number(good, tmp_path):
    """Triton numbers a file for trace_count only when it has all of them."""
    file = tmp_path / "t"
    options = ("level=TIMESTAMPS", "rate=1", "count=3", f"triton,file={file}")
    with Server(good, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        with th.InferenceServerClient(s.http) as c:
            for _ in range(2):
                infer(c)
    ids = {e["id"] for e in json.loads(file.read_text())}
    assert len(ids) == 2 and not (tmp_path / "t.0").exists()


ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
ensemble_scheduling { step [{
  model_name: "sums" model_version: -1
  input_map { key: "INPUT0" value: "INPUT0" } input_map { key: "INPUT1" value: "INPUT1" }
  output_map { key: "OUTPUT0" value: "OUTPUT0" }
}] }
"""


def test_E038_E039_an_ensemble_itself_computes_nothing(tmp_path):
    """As in Triton, only the trace of its step has the moments of an execution."""
    repo = tmp_path / "models"
    models.write_sums(repo, "sums")
    io = models.tensors("input", [(n, "INT32", [16]) for n in ("INPUT0", "INPUT1")])
    models.write(repo / "both/config.pbtxt", ENSEMBLE + io + models.tensors("output", [("OUTPUT0", "INT32", [16])]))
    (repo / "both/1").mkdir()
    options = ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/t")
    with Server(repo, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        with th.InferenceServerClient(s.http) as c:
            infer(c, "both")
    all = json.loads((tmp_path / "t").read_text())
    names = {e["id"]: e["model_name"] for e in all if "model_name" in e}
    moments = {names[e["id"]]: {t["name"] for t in e["timestamps"]} for e in all if "timestamps" in e}
    assert "COMPUTE_START" in moments["sums"] and {"REQUEST_START", "QUEUE_START", "REQUEST_END"} <= moments["both"]
    assert not {m for m in moments["both"] if m.startswith("COMPUTE")}


@pytest.mark.skipif(REFERENCE, reason="needs ONNX models")
@pytest.mark.parametrize("env, options, started, path", [
    (["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=sums"], ["--allow-sagemaker=true", "--sagemaker-port=0"], "Sagemaker",
     "/invocations"),
    (["AIP_MODE=PREDICTION", "AIP_HTTP_PORT=0", "AIP_PREDICT_ROUTE=/predict", "AIP_HEALTH_ROUTE=/health"],
     ["--allow-http=true", "--allow-grpc=true", "--vertex-ai-default-model=sums"], "Vertex AI", "/predict"),
])
def test_B083_B084_E038_requests_of_cloud_services_are_traced(tmp_path, env, options, started, path):
    repo = tmp_path / "models"
    models.write_sums(repo, "sums")
    options = options + [f"--trace-config={o}" for o in ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/t")]
    zeros = [{"name": n, "datatype": "INT32", "shape": [1, 16], "data": [0] * 16} for n in ("INPUT0", "INPUT1")]
    with Server(repo, tmp_path, *options, command=["env", *env, BINARY, "serve"]) as s:
        address = s._address(f"Started {started} HTTPService at ")
        answer = requests.post(f"http://{address}{path}", json={"inputs": zeros}, timeout=60)
        assert answer.status_code == 200, answer.text
    names = [e["model_name"] for e in json.loads((tmp_path / "t").read_text()) if "model_name" in e]
    assert names == ["sums"]


@pytest.mark.skipif(REFERENCE, reason="Triton does not count them")
def test_E042_spans_that_a_slow_collector_does_not_take_are_counted(good, tmp_path):
    """The collector takes no more while the requests run. Every span arrives, or is counted; the log says it once."""
    go_on = threading.Event()
    with Collector() as c:
        take = c.server.RequestHandlerClass.do_POST
        c.server.RequestHandlerClass.do_POST = lambda self: (go_on.wait(60), take(self))
        options = ("level=TIMESTAMPS", "rate=1", "mode=opentelemetry", f"opentelemetry,url={c.address}",
                   "opentelemetry,bsp_schedule_delay=1", "opentelemetry,bsp_max_queue_size=8",
                   "opentelemetry,bsp_max_export_batch_size=4")
        with Server(good, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
            lost = lambda why: int(re.search(r'nereid_trace_spans_lost_total{reason="%s"} (\d+)' % why,
                                             s.request("GET", "/metrics", address=s.metrics).body.decode())[1])
            assert lost("queue_full") == lost("not_sent") == 0
            with th.InferenceServerClient(s.http) as client:
                for _ in range(20):
                    infer(client)
            until(lambda: lost("queue_full") == 20 * 3 - 8, 60, "the spans are not counted", s.log)
            assert s.log().count("spans were dropped") == 1 and lost("not_sent") == 0
            go_on.set()
        assert s.log().count("spans were dropped") == 2  # the rest, at the exit
    spans = b"".join(body for _, body in c.bodies)
    assert sum(spans.count(b) for b in (b"InferRequest", b"triton.model_name", b"compute")) == 8


CONTEXT = models.PYTHON_HEAD + """    def execute(self, requests):
        says = [str(r.trace().get_context()) for r in requests]
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([s], object))]) for s in says]
"""


@pytest.mark.parametrize("mode", ["triton", "opentelemetry"])
def test_D043_E042_a_python_model_sees_the_context_of_its_trace(tmp_path, mode):
    """Also without a client's context. The parent in it is the span of the model, which the collector gets."""
    folder = tmp_path / "models/m"
    models.write(folder / "config.pbtxt", 'backend: "python"\n' + models.tensors("input", [("INPUT0", "INT32", [1])])
                 + models.tensors("output", [("OUTPUT0", "STRING", [1])]))
    models.write(folder / "1/model.py", CONTEXT)
    client = "00-0123456789abcdef0123456789abcdef-fedcba9876543210-01"
    value = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}]}
    with Collector() as c:
        options = ("level=TIMESTAMPS", "rate=1", f"mode={mode}", f"triton,file={tmp_path}/trace",
                   f"opentelemetry,url={c.address}", "opentelemetry,bsp_schedule_delay=100")
        with Server(tmp_path / "models", tmp_path, *(f"--trace-config={o}" for o in options)) as s:
            for headers in {}, {"traceparent": client}:
                answer = s.post("/v2/models/m/infer", value, headers)
                said = answer.json["outputs"][0]["data"][0]
                if mode == "triton":
                    assert said == "None"
                    continue
                version, trace, span, flags = json.loads(said)["traceparent"].split("-")
                assert (version, flags) == ("00", "01") and (trace in client) == bool(headers) and span not in client
                needed = bytes.fromhex(trace), bytes.fromhex(span), b"triton.model_name"
                REFERENCE or until(lambda: any(all(n in body for n in needed) for _, body in c.bodies), 60,
                                   "the span is not sent")
