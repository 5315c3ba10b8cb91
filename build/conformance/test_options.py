"""Options of tritonserver on running servers. Each test fails if its option is not connected to what it sets.

Most of them share one server, which has all options that do not disturb each other. Options with a test in another file
carry their id there."""

import atexit
import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import models
from gpus import REAL
from harness import BINARY, PYTHON_FIRST, REFERENCE, ROOT, Server, free_port, until
from test_metrics import samples, scrape

pytestmark = pytest.mark.skipif(REFERENCE, reason="options of the server under test")

# A Python model that returns what the server passes to it, and on which cores it may run.
PROBE = """
import json, os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        said = [json.dumps([json.loads(r.parameters() or "{}"), sorted(os.sched_getaffinity(0))]) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([s], dtype=object))]) for s in said]
"""
# A Python model with code for initialize.
STARTS = """
import fcntl, glob, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class TritonPythonModel:
    def initialize(self, args):
        %s

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(["x"], dtype=object))]) for _ in requests]
"""
TENSORS = models.tensors("input", [("IN", "INT32", [1])]) + models.tensors("output", [("OUT", "BYTES", [1])])


def python(repo, name, code, config=""):
    models.write(repo / name / "1/model.py", code)
    models.write(repo / name / "config.pbtxt", 'backend: "python"\n' + TENSORS + config)


def ask(module, client, model, **more):
    i = module.InferInput("IN", [1], "INT32")
    i.set_data_from_numpy(np.zeros(1, np.int32))
    return json.loads(client.infer(model, [i], **more).as_numpy("OUT")[0])


def stops(*options, limit=60):
    """Starts a server that must refuse its command line. Returns its exit status and all that it printed."""
    done = subprocess.run([BINARY, "serve", *options], capture_output=True, text=True, timeout=limit)
    return done.returncode, done.stdout + done.stderr


def address(server):
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def refused(at):
    """Nothing listens there."""
    with socket.socket() as s:
        return s.connect_ex(at) != 0


NO_EFFECT = {
    "H020": "enable-peer-access=true", "H032": "http-thread-count=3", "H040": "grpc-infer-thread-count=4",
    "H041": "grpc-infer-allocation-pool-size=4", "H042": "grpc-max-response-pool-size=4",
    "H050": "grpc-http2-max-pings-without-data=3", "H052": "grpc-http2-max-ping-strikes=3",
    "H059": "sagemaker-thread-count=3", "H062": "vertex-ai-thread-count=3",
    "H081": "cuda-virtual-address-size=0:1",
    "H083": "buffer-manager-thread-count=2",
}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    work = tmp_path_factory.mktemp("tuned")
    one, two = work / "one", work / "two"
    python(one, "probe", PROBE, "instance_group [ { kind: KIND_CPU } ]\n")
    python(one, "late", PROBE)
    greedy = "rate_limiter { resources [ { name: \"R\" count: 2 } ] }"
    python(one, "greedy", PROBE, "instance_group [ { kind: KIND_CPU %s } ]\n" % greedy)
    configured = models.write_identity(two, "configured", "max_batch_size: 8\n")
    small = (configured / "config.pbtxt").read_text().replace("max_batch_size: 8", "max_batch_size: 3")
    models.write(configured / "configs/small.pbtxt", small)
    (models.write_identity(two, "bare") / "config.pbtxt").unlink()
    ports = {n: free_port() for n in ("http", "grpc", "metrics", "sagemaker", "vertex-ai")}
    options = [
        "--model-store=" + str(two), "--id", "one", "--log-verbose", "1", "--log-format=ISO8601",
        "--model-control-mode=explicit", "--load-model=probe", "--load-model=configured", "--load-model=bare",
        "--model-config-name=small", "--http-address=127.0.0.2", "--grpc-address=127.0.0.3",
        "--metrics-address=127.0.0.4", *(f"--{n}-port={p}" for n, p in ports.items()),
        "--http-header-forward-pattern=my_.*", "--grpc-header-forward-pattern=my_.*", "--http-max-input-size=100000",
        "--http-restricted-api=statistics:k=v", "--grpc-restricted-protocol=statistics:k=v",
        "--grpc-infer-response-compression-level=high", "--allow-cpu-metrics=FALSE",
        "--cache-config=local,size=1048576",
        "--rate-limit=execution_count", "--rate-limit-resource=R:1", "--backend-config=default-max-batch-size=7",
        "--host-policy=cpu,cpu-cores=0-0", "--allow-sagemaker=on", "--allow-vertex-ai=1",
        "--vertex-ai-default-model=configured", *(f"--{o}" for o in NO_EFFECT.values()),
    ]
    routes = ["AIP_PREDICT_ROUTE=/predict", "AIP_HEALTH_ROUTE=/health"]
    with Server(one, work, *options, command=["env", *routes, BINARY, "serve"]) as s:
        s.ports = ports
        yield s


@pytest.mark.parametrize("option", [
    pytest.param("H020", id="H020"), pytest.param("H032", id="H032"), pytest.param("H040", id="H040"),
    pytest.param("H041", id="H041"), pytest.param("H042", id="H042"), pytest.param("H050", id="H050"),
    pytest.param("H052", id="H052"), pytest.param("H059", id="H059"), pytest.param("H062", id="H062"),
    pytest.param("H081", id="H081"),
    pytest.param("H083", id="H083"),
])
def test_options_without_effect_say_so(tuned, option):
    name = NO_EFFECT[option].partition("=")[0]
    assert f"the option --{name} has no effect in this server" in tuned.log()
    text = stops("--help")[1]
    assert "Accepted without effect." in text.partition(f"--{name}=")[2].partition("\n  --")[0]


def test_H001_both_forms_of_values_and_H007_id(tuned):
    assert tuned.get("/v2").json["name"] == "one"


@pytest.mark.parametrize("value, on", [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False),
                                       ("0", False), ("maybe", None)])
def test_H002_booleans(tmp_path, value, on):
    """With every value the second fault of the command line is reported. Only what is no boolean is a fault itself."""
    status, text = stops(f"--allow-http={value}", "--http-port=x")
    assert status == 1 and "--http-port" in text and ("--allow-http" in text) == (on is None)


def test_H003_an_unknown_option_is_named_beside_the_way_to_the_usage():
    status, text = stops("--no-such-option=1")
    assert status == 1 and "unrecognized option '--no-such-option'" in text and "--help lists the options" in text


def test_H004_H009_two_repositories_by_both_names(tuned):
    assert {m for m, _ in tuned.index()} >= {"probe", "late", "configured", "bare"}
    for model in ("probe", "configured"):
        assert tuned.get(f"/v2/models/{model}/ready").status == 200


def test_H005_ports_that_collide_are_refused():
    status, text = stops("--http-port=7001", "--grpc-port=7001")
    assert status == 1 and "7001" in text


def test_H006_help():
    status, text = stops("--help")
    assert status == 0 and re.search(r"^gRPC:\n(.*\n)*  --grpc-port=<port>\n", text, re.M)


def test_H013_H015_explicit_mode_and_the_models_at_the_start(tuned):
    assert tuned.state("late") != "READY" and tuned.state("probe") == "READY"
    assert tuned.post("/v2/repository/models/late/load").status == 200
    assert tuned.state("late") == "READY"


def test_H016_model_config_name(tuned):
    assert tuned.get("/v2/models/configured/config").json["max_batch_size"] == 3


def test_H021_verbose_messages(tuned):
    with socket.create_connection(address(tuned.grpc)) as s:
        s.sendall(b"no HTTP/2 at all, and long enough to be seen\r\n\r\n")
        until(lambda: "gRPC connection closed for a fault of its client" in tuned.log(), 60, "no message", tuned.log)


def test_H021_requests_are_logged_at_the_verbose_level(tmp_path):
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", tmp_path, "--log-verbose=1") as s, tg.InferenceServerClient(s.grpc) as c:
        for level in (1, 0):
            assert s.post("/v2/logging", {"log_verbose_level": level}).status == 200
            assert s.get("/v2/models/absent/config").status == 404 and s.get("/v2/health/live").status == 200
            with pytest.raises(InferenceServerException):
                c.get_model_metadata("absent")
        lines = [re.search(r"^I.*\] (\".*\")$", text) for text in s.log().splitlines()]
        said = [json.loads(found[1]) for found in lines if found]  # each message is a JSON string
        said = [text.split(" why=")[0] for text in said if text.startswith(("HTTP", "gRPC"))]
    unknown = "Request for unknown model: 'absent' is not found"
    assert said[said.index("HTTP request: POST /v2/logging"):] == [  # the harness asked for the readiness before
        "HTTP request: POST /v2/logging", "HTTP request: GET /v2/models/absent/config",
        "HTTP error: GET /v2/models/absent/config - " + unknown, "HTTP request: GET /v2/health/live",
        "gRPC call: /inference.GRPCInferenceService/ModelMetadata",
        "gRPC error: /inference.GRPCInferenceService/ModelMetadata - NotFound: " + unknown,
        "HTTP request: POST /v2/logging"]


SAYS = models.PYTHON_HEAD + """    def execute(self, requests):
        pb.Logger.log_verbose("said in execute")
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]

    def finalize(self):
        pb.Logger.log_verbose("said in finalize")
"""


def test_verbose_lines_of_python_models_follow_the_level(tmp_path):
    repo = tmp_path / "models"
    io = models.tensors("input", [("INPUT0", "FP32", [1])]) + models.tensors("output", [("OUTPUT0", "FP32", [1])])
    models.write(repo / "says/config.pbtxt", 'backend: "python"\n' + io)
    models.write(repo / "says/1/model.py", SAYS)
    with Server(repo, tmp_path, "--log-verbose=0", "--model-control-mode=explicit", "--load-model=says") as s:
        for level in (0, 1, 1, 0, 1):
            assert s.post("/v2/logging", {"log_verbose_level": level}).status == 200
            assert s.post("/v2/models/says/infer", {"inputs": [
                {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}).status == 200
        assert s.post("/v2/repository/models/says/unload").status == 200
        until(lambda: "said in finalize" in s.log(), 60, "no line of finalize", s.log)
        assert s.log().count("said in execute") == 3


def test_H025_log_format(tuned):
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", tuned.log(), re.M)


@pytest.mark.parametrize("service, host", [pytest.param("http", "127.0.0.2", id="H028 H029 http"),
                                           pytest.param("grpc", "127.0.0.3", id="H036 H037 grpc"),
                                           pytest.param("metrics", "127.0.0.4", id="H067 H068 metrics")])
def test_addresses_and_ports(tuned, service, host):
    assert address(getattr(tuned, service)) == (host, tuned.ports[service])
    assert not refused((host, tuned.ports[service])) and refused(("127.0.0.1", tuned.ports[service]))


def test_H031_forwarded_headers(tuned):
    with th.InferenceServerClient(tuned.http) as c:
        assert ask(th, c, "probe", headers={"my_note": "a", "other": "b"})[0] == {"my_note": "a"}


def test_H039_forwarded_metadata(tuned):
    with tg.InferenceServerClient(tuned.grpc) as c:
        assert ask(tg, c, "probe", headers={"my_note": "a", "other": "b"})[0] == {"my_note": "a"}


def test_H033_the_largest_body(tuned):
    assert tuned.post("/v2/models/probe/infer", b" " * 100001).status == 413
    assert tuned.post("/v2/models/probe/infer", b" " * 99999).status == 400


def test_H034_restricted_over_http(tuned):
    assert tuned.get("/v2/models/stats").status == 403
    assert tuned.request("GET", "/v2/models/stats", headers={"k": "v"}).status == 200


def test_H055_restricted_over_grpc(tuned):
    with tg.InferenceServerClient(tuned.grpc) as c:
        with pytest.raises(InferenceServerException):
            c.get_inference_statistics()
        c.get_inference_statistics(headers={"triton-grpc-protocol-k": "v"})


class Relay:
    """Passes one connection on, and counts the bytes that the server sends."""

    def __init__(self, to):
        self.count, self.listener = 0, socket.create_server(("127.0.0.1", 0))
        self.at = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, args=(to,), daemon=True).start()

    def serve(self, to):
        client, _ = self.listener.accept()
        server = socket.create_connection(to)
        threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
        with contextlib.suppress(OSError):  # the client closes first
            while data := server.recv(65536):
                self.count += len(data)
                client.sendall(data)

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)


def test_H046_compressed_responses(tuned):
    """The server sends fewer bytes than the outputs have."""
    relay = Relay(address(tuned.grpc))
    with tg.InferenceServerClient(relay.at) as c:
        i = tg.InferInput("INPUT0", [3, 16], "FP32")
        i.set_data_from_numpy(np.zeros([3, 16], np.float32))
        assert c.infer("configured", [i]).as_numpy("OUTPUT0").shape == (3, 16)
        before = relay.count
        for _ in range(20):
            c.infer("configured", [i])
        assert relay.count - before < 20 * 3 * 16 * 4


def test_H056_H057_sagemaker(tuned):
    at = f"127.0.0.2:{tuned.ports['sagemaker']}"
    assert tuned.request("GET", "/ping", address=at).status == 200


def test_H058_sagemaker_ports_out_of_range():
    status, text = stops("--allow-sagemaker=true", "--sagemaker-safe-port-range=21000-21003", "--http-port=20000",
                         "--grpc-port=21001", "--metrics-port=21002")
    assert status == 1 and "20000" in text and "21000" in text


def test_H058_sagemaker_with_all_ports_in_the_range(identity, tmp_path):
    ports = {service: free_port() for service in ("http", "grpc", "metrics", "sagemaker")}
    with Server(identity, tmp_path, "--allow-sagemaker=true", *(f"--{s}-port={p}" for s, p in ports.items()),
                f"--sagemaker-safe-port-range={min(ports.values())}-{max(ports.values())}") as s:
        assert s.request("GET", "/ping", address=f"127.0.0.1:{ports['sagemaker']}").status == 200


def test_H061_H063_vertex_ai(tuned):
    at = f"127.0.0.2:{tuned.ports['vertex-ai']}"
    assert tuned.request("GET", "/health", address=at).status == 200
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1] * 16}]}
    answer = tuned.request("POST", "/predict", json.dumps(body), address=at).json
    assert answer["model_name"] == "configured"


def test_H066_no_cpu_metrics(tuned, server):
    assert "nv_cpu_utilization" not in scrape(tuned) and "nv_cpu_utilization" in scrape(server)


def test_H073_backend_config(tuned):
    assert tuned.get("/v2/models/bare/config").json["max_batch_size"] == 7


def test_H077_H078_resources_of_the_rate_limiter(tuned):
    """The model needs two of R, and the server has one. Without either option the model loads."""
    answer = tuned.post("/v2/repository/models/greedy/load")
    assert answer.status == 400 and '"R"' in answer.error.replace("'", '"')


def test_H084_host_policy(tuned):
    with th.InferenceServerClient(tuned.http) as c:
        assert ask(th, c, "probe")[1] == [0]


# --- what needs a separate server ---


def bare(tmp_path, *options, ready):
    """Starts a server that the harness cannot start, because it does not say where it listens."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    log = open(tmp_path / "out", "wb")
    argv = [BINARY, "serve", f"--model-repository={repo}", f"--data-dir={tmp_path / 'data'}", "--ui-port=0", *options]
    process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PATH": PYTHON_FIRST})
    atexit.register(process.kill)  # a failed test leaves it running
    try:
        until(lambda: process.poll() is not None or ready(), 120, "not ready", (tmp_path / "out").read_text)
        assert process.poll() is None, (tmp_path / "out").read_text()
    except BaseException:
        process.kill()
        raise
    return process


def http_ready(port):
    def ready():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=60) as r:
            return r.status == 200

    return ready


def grpc_ready(port):
    def ready():
        try:
            with tg.InferenceServerClient(f"127.0.0.1:{port}") as c:
                return c.is_server_ready()
        except InferenceServerException:
            return False

    return ready


def finish(process):
    process.terminate()
    assert process.wait(120) == 0


def test_H027_H064_H026_http_and_metrics_off_and_a_log_file(tmp_path):
    http, grpc_, metrics = (free_port() for _ in range(3))
    log = tmp_path / "server.log"
    process = bare(tmp_path, "--allow-http=false", "--allow-metrics=false", f"--http-port={http}",
                   f"--grpc-port={grpc_}", f"--metrics-port={metrics}", f"--log-file={log}", ready=grpc_ready(grpc_))
    assert refused(("127.0.0.1", http)) and refused(("127.0.0.1", metrics))
    finish(process)
    assert "Started GRPCInferenceService" in log.read_text()
    assert "Started GRPCInferenceService" not in (tmp_path / "out").read_text()


def test_the_file_of_the_log_stays_within_its_size(tmp_path):
    port = free_port()
    log = tmp_path / "log/server.log"
    log.parent.mkdir()
    process = bare(tmp_path, "--log-verbose=1", f"--log-file={log}", "--log-file-max-bytes=1MiB", f"--http-port={port}",
                   "--grpc-port=0", "--metrics-port=0", ready=http_ready(port))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        for _ in range(400):
            connection.request("GET", f"/v2/models/{'m' * 8000}/ready")
            connection.getresponse().read()
    finish(process)
    sizes = [p.stat().st_size for p in log.parent.iterdir()]
    assert len(sizes) == 2 and 1 << 20 < sum(sizes) <= 2 << 20, sizes
    assert log.exists()


def test_H035_grpc_off(tmp_path):
    http, grpc_ = free_port(), free_port()
    process = bare(tmp_path, "--allow-grpc=false", f"--http-port={http}", f"--grpc-port={grpc_}", "--metrics-port=0",
                   ready=http_ready(http))
    assert refused(("127.0.0.1", grpc_))
    finish(process)


@pytest.mark.parametrize("option, line", [pytest.param("log-info", r"^I|INFO", id="H022"),
                                          pytest.param("log-warning", r"^W|WARN", id="H023"),
                                          pytest.param("log-error", r"^E|ERROR", id="H024")])
def test_kinds_of_log_messages(tmp_path, option, line):
    """A server whose model cannot load and whose port is open to the network writes messages of all kinds."""
    def run(work, *more):
        work.mkdir()
        models.write(work / "models/broken/config.pbtxt", 'backend: "no such backend"\n')
        port = free_port()
        process = bare(work, "--http-port=0", f"--grpc-port={port}", "--metrics-port=0", "--http-address=0.0.0.0",
                       "--allow-anonymous", "--strict-readiness=false", *more, ready=grpc_ready(port))
        finish(process)
        return (work / "out").read_text()

    assert re.search(line, run(tmp_path / "on"), re.M)
    assert not re.search(line, run(tmp_path / "off", f"--{option}=false"), re.M)


def test_H012_strict_readiness(tmp_path):
    repo = models.write_identity(tmp_path / "models", "m").parent
    models.write(repo / "broken/config.pbtxt", 'backend: "no such backend"\n')
    with Server(repo, tmp_path, "--strict-readiness=false", "--exit-on-error=false", wait="live") as s:
        until(lambda: s.get("/v2/models/m/ready").status == 200, 60, "the model is not ready", s.log)
        assert s.get("/v2/health/ready").status == 200


class Bucket(http.server.BaseHTTPRequestHandler):
    """An empty bucket of Google Cloud Storage that counts how often it is listed."""

    def do_GET(self):
        self.server.lists += 1
        body = b'{"kind":"storage#objects","items":[]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_H014_poll_interval(tmp_path):
    """Ten looks at a bucket take 150 s with the default interval."""
    bucket = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    bucket.lists = 0
    threading.Thread(target=bucket.serve_forever, daemon=True).start()
    command = ["env", f"STORAGE_EMULATOR_HOST=http://127.0.0.1:{bucket.server_port}", BINARY, "serve"]
    folder = tmp_path / "models"
    models.write_identity(folder, "m")
    try:
        with Server(folder, tmp_path, "--model-repository=gs://bucket/models", "--model-control-mode=poll",
                    "--repository-poll-secs=1", command=command, wait="live") as s:
            start = bucket.lists
            until(lambda: bucket.lists >= start + 10, 60, "the bucket is not polled", s.log)
    finally:
        bucket.shutdown()


def test_H017_six_models_load_at_once(tmp_path):
    """Each waits in initialize until all six are there. The default is four at once."""
    code = """open(os.path.join(HERE, "here." + args["model_name"]), "w").close()
        while len(glob.glob(os.path.join(HERE, "here.*"))) < 6:
            time.sleep(0.02)
"""
    for n in range(6):
        python(tmp_path / "models", f"m{n}", STARTS % code)
    with Server(tmp_path / "models", tmp_path, "--model-load-thread-count=6"):
        pass


def test_H018_failed_loads_are_retried(tmp_path):
    code = """with open(os.path.join(HERE, "tries"), "a+") as f:
            f.write("x")
            f.seek(0)
            if len(f.read()) < 3:
                raise pb_utils.TritonModelException("not yet")
"""
    python(tmp_path / "models", "m", STARTS % code)
    with Server(tmp_path / "models", tmp_path, "--model-load-retry-count=2") as s:
        assert s.state("m") == "READY"


def test_H019_namespaces(tmp_path):
    repos = [models.write_identity(tmp_path / n, "m").parent for n in ("a", "b")]
    with Server(repos, tmp_path, "--model-namespacing=true", wait="live") as s:
        def states():
            return [r.get("state") for r in s.post("/v2/repository/index", {}).json]

        until(lambda: states() == ["READY"] * 2, 60, "not both are ready", s.log)


def test_H069_figures_of_the_processor_are_kept(tmp_path):
    """The first figure is 0 and is an hour old at most. The default would take a new one after two seconds of work."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    with Server(repo, tmp_path, "--metrics-interval-ms=3600000") as s:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert samples(scrape(s))["nv_cpu_utilization"] == 0


def test_H088_size_of_the_cache(tmp_path):
    cached = "max_batch_size: 8\nresponse_cache { enable: true }\n"
    repo = models.write_identity(tmp_path / "models", "m", cached).parent
    with Server(repo, tmp_path, "--response-cache-byte-size=1048576") as s, th.InferenceServerClient(s.http) as c:
        i = th.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(np.zeros([1, 16], np.float32))
        for _ in range(2):
            c.infer("m", [i])
        assert samples(scrape(s))['nv_cache_num_hits_per_model{model="m",version="1"}'] == 1


def test_H089_old_trace_options(tmp_path):
    repo = models.write_identity(tmp_path / "models", "m").parent
    file = tmp_path / "trace.json"
    with Server(repo, tmp_path, "--trace-level=TIMESTAMPS", "--trace-rate=7", "--trace-count=5",
                "--trace-log-frequency=3", f"--trace-file={file}") as s:
        got = s.get("/v2/trace/setting").json
        assert (got["trace_level"], got["trace_rate"], got["trace_count"], got["log_frequency"], got["trace_file"]) == (
            ["TIMESTAMPS"], "7", "5", "3", str(file))


# --- keepalive, by frames of HTTP/2 ---

PING, GOAWAY, HEADERS = 6, 7, 1


class H2:
    """A connection without a library: it sends and reads frames."""

    def __init__(self, server):
        self.socket = socket.create_connection(address(server.grpc), 60)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4))
        self.data = b""

    @staticmethod
    def frame(kind, flags=0, stream=0, payload=b""):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def send(self, *frame, **more):
        self.socket.sendall(self.frame(*frame, **more))

    def read(self):
        """The next frame, (kind, flags, payload), or None when the server has closed the connection."""
        def whole():
            return len(self.data) >= 9 and len(self.data) >= 9 + int.from_bytes(self.data[:3], "big")

        while not whole():
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            self.data += more
        n = 9 + int.from_bytes(self.data[:3], "big")
        frame, self.data = self.data[:n], self.data[n:]
        return frame[3], frame[4], frame[9:]

    def until(self, kind):
        """Reads up to a frame of this kind and returns it; None if the connection ends before."""
        while (frame := self.read()) is not None:
            if frame[0] == kind and not (kind == PING and frame[1] & 1):
                return frame
        return None


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    return models.write_identity(tmp_path_factory.mktemp("identity") / "models", "m").parent


def name_over_http(at):
    with urllib.request.urlopen(f"http://{at}/v2", timeout=60) as r:
        return json.load(r)["name"]


def name_over_grpc(at):
    with tg.InferenceServerClient(at, channel_args=[("grpc.use_local_subchannel_pool", 1)]) as c:
        return c.get_server_metadata().name


@pytest.mark.parametrize("service, name", [pytest.param("http", name_over_http, id="H030 http"),
                                           pytest.param("grpc", name_over_grpc, id="H038 grpc")])
def test_two_servers_share_a_port(identity, tmp_path, service, name):
    """Connections reach both: the kernel chooses one for each. A server that does not share the port does not start."""
    port = f"--{service}-port={free_port()}"
    share = [port, f"--reuse-{service}-port=true"]
    with Server(identity, tmp_path / "a", "--id=a", *share) as a, Server(identity, tmp_path / "b", "--id=b", *share):
        at, seen = getattr(a, service), set()
        until(lambda: seen.add(name(at)) or seen == {"a", "b"}, 60, f"only {seen} are reached")
        status, text = stops(f"--model-repository={identity}", f"--data-dir={tmp_path / 'c'}", port)
        assert status == 1 and "already in use" in text


def test_H047_pings_of_the_server(identity, tmp_path):
    with Server(identity, tmp_path, "--grpc-keepalive-time=50") as s:
        assert H2(s).until(PING)


def test_H048_a_client_that_does_not_answer_pings(identity, tmp_path):
    """The connection ends although the client is there. With the default it would last for 20 s, beyond the limit."""
    with Server(identity, tmp_path, "--grpc-keepalive-time=50", "--grpc-keepalive-timeout=50") as s:
        c = H2(s)
        assert c.until(PING)
        c.socket.settimeout(15)
        assert c.until(GOAWAY) is None or c.read() is None


@pytest.mark.parametrize("permit, interval", [(True, 0), (False, 0), (True, 300000)])
def test_H049_H051_pings_of_clients(identity, tmp_path, permit, interval):
    """Pings are welcome only if both options say so: without calls, and that often."""
    with Server(identity, tmp_path, f"--grpc-keepalive-permit-without-calls={permit}",
                f"--grpc-http2-min-recv-ping-interval-without-data={interval}") as s:
        c = H2(s)
        for n in range(8):
            try:
                c.send(PING, payload=bytes([n] * 8))
            except OSError:
                break  # it has closed the connection
        answers = 0
        while answers < 8 and (frame := c.read()) is not None and frame[0] != GOAWAY:
            answers += frame[0] == PING and frame[1] == 1
        assert (answers == 8) == (permit and interval == 0)


def test_H053_the_age_of_a_connection(identity, tmp_path):
    with Server(identity, tmp_path, "--grpc-max-connection-age=100") as s:
        assert H2(s).until(GOAWAY)


def test_H054_the_grace_of_an_old_connection(tmp_path):
    """A call that does not end keeps an old connection open only for the grace."""
    code = STARTS % "pass\n"
    python(tmp_path / "models", "m", code.replace("def execute(self, requests):",
                                                  "def execute(self, requests):\n        time.sleep(3600)"))
    with Server(tmp_path / "models", tmp_path, "--grpc-max-connection-age=100", "--exit-timeout-secs=0",
                "--grpc-max-connection-age-grace=100") as s, tg.InferenceServerClient(s.grpc) as c:
        i = tg.InferInput("IN", [1], "INT32")
        i.set_data_from_numpy(np.zeros(1, np.int32))
        with pytest.raises(InferenceServerException) as e:
            c.infer("m", [i], client_timeout=60)
        assert "DEADLINE" not in str(e.value).upper()


# --- GPUs, on stand-ins ---

cards = pytest.mark.skipif(REAL or not (ROOT / ".cache/cuda/env").exists(), reason="needs cuda.h and no real GPU")
PLACED = "instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]\n"


@cards
def test_H065_H079_metrics_and_pinned_memory_of_gpus(machine, tmp_path):
    python(tmp_path / "models", "m", PROBE, PLACED)
    options = ["--pinned-memory-pool-byte-size=1048576"]
    with Server(tmp_path / "models", tmp_path / "on", *options, command=machine.command()) as s:
        text = scrape(s)
        assert "nv_gpu_memory_total_bytes" in text
        assert samples(text)["nv_pinned_memory_pool_total_bytes"] == 1048576
    with Server(tmp_path / "models", tmp_path / "off", "--allow-gpu-metrics=false", command=machine.command()) as s:
        assert "nv_gpu_memory_total_bytes" not in scrape(s)


@cards
def test_H080_the_pool_of_each_gpu(machine, tmp_path):
    python(tmp_path / "models", "m", PROBE, PLACED)
    options = ["--cuda-memory-pool-byte-size=1:1048576"]
    with Server(tmp_path / "models", tmp_path, *options, command=machine.command()) as s:
        found = samples(scrape(s))
        sizes = {gpu: found['nereid_cuda_memory_pool_total_bytes{gpu="%d"}' % gpu] for gpu in (0, 1)}
        assert sizes == {0: 64 << 20, 1: 1048576}
        assert found['nereid_cuda_memory_pool_used_bytes{gpu="1"}'] == 0


@cards
@pytest.mark.parametrize("option, text", [
    pytest.param("min-supported-compute-capability=9.0", "invalid or unsupported gpu id 1. GPUs with at least the minimum "
                 "required CUDA compute compatibility of 9.000000 are: ", id="H082"),
    pytest.param("model-load-gpu-limit=1:0.5", "limit", id="H085"),
])
def test_a_model_that_may_not_use_a_gpu(machine, tmp_path, option, text):
    python(tmp_path / "models", "m", PROBE, PLACED)
    (machine.state / "gpu1").write_text(f"used {900 << 20}\n")
    try:
        with Server(tmp_path / "models", tmp_path, "--" + option, "--exit-on-error=false", wait="live",
                    command=machine.command()) as s:
            until(lambda: s.state("m") == "UNAVAILABLE" or s.index().get(("m", ""), ("",))[0], 60, s.index(), s.log)
            reason = " ".join(r for (name, _), (_, r) in s.index().items() if name == "m")
            assert text in reason and s.get("/v2/models/m/ready").status == 400
    finally:
        (machine.state / "gpu1").unlink()
