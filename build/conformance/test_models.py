"""Layouts of repositories and models, and the effects of model configurations."""

import os
import shutil
import stat
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as th
from onnx import helper

import models
from harness import REFERENCE, Server, deviates, tensor_input, until

ONE = {"inputs": [tensor_input("INPUT0", "FP32", [1, 16], [1] * 16)]}


def infer(server, model, value=None, version=""):
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
    return server.post(path, value or ONE)


def test_A001_A002_both_names_of_the_option_set_the_repository(tmp_path):
    for n in ("one", "two", "three"):
        models.write_identity(tmp_path / n, n)
    more = [f"--model-store={tmp_path / 'two'}", "--model-repository", str(tmp_path / "three")]
    with Server(tmp_path / "one", tmp_path, *more) as s:
        assert {n for n, _ in s.index(ready=True)} == {"one", "two", "three"}


def test_A001_a_missing_repository_stops_the_start(tmp_path):
    s = Server(tmp_path / "absent", tmp_path, wait=None)
    with pytest.raises(AssertionError, match="the server exited with 1"):
        s.start()
    assert "absent" in s.log()


@pytest.mark.skipif(REFERENCE, reason="Python writes its own files into the folder")
def test_A004_serves_from_a_read_only_repository(tmp_path):
    repo = tmp_path / "models"
    models.write_identity(repo, "fixed")
    paths = [p for p in repo.rglob("*")] + [repo]
    for p in paths:
        p.chmod(stat.S_IRUSR | (stat.S_IXUSR if p.is_dir() else 0))
    before = {p: p.stat().st_mtime_ns for p in paths}
    try:
        with Server(repo, tmp_path) as s:
            assert infer(s, "fixed").status == 200
        assert {p: p.stat().st_mtime_ns for p in repo.rglob("*")} == {p: before[p] for p in repo.rglob("*")}
    finally:
        for p in reversed(paths):
            p.chmod(0o755)


def test_A005_an_empty_repository_is_valid(tmp_path):
    (tmp_path / "empty").mkdir()
    with Server(tmp_path / "empty", tmp_path) as s:
        assert s.get("/v2/health/ready").status == 200 and s.post("/v2/repository/index").json == []


def test_A005_A006_DV26_only_numbered_folders_are_versions(tmp_path):
    repo = tmp_path / "models"
    m = models.write_plus_version(repo, config="version_policy { all { } }\n", versions=(2, 10))
    for other in ("03", "new", "docs", *deviates((), ("0", "-1", "1x"))):  # Triton parses these as 0, -1 and 1
        shutil.copytree(m / "2", m / other)
    (repo / "README.md").write_text("no model")
    with Server(repo, tmp_path) as s:
        assert sorted(s.get("/v2/models/plus_version").json["versions"], key=int) == ["2", "10"]
        a = infer(s, "plus_version").json
        assert a["model_version"] == "10" and a["outputs"][0]["data"] == [11.0] * 16  # 10 is newer than 2


def test_A014_file_name_from_the_configuration(tmp_path):
    repo = tmp_path / "models"
    m = models.write_identity(repo, "renamed", 'max_batch_size: 8\ndefault_model_filename: "other.bin"\n')
    next((m / "1").iterdir()).rename(m / "1/other.bin")
    if REFERENCE:
        (m / "1/other.bin").rename(m / "1/other.py")
        (m / "config.pbtxt").write_text((m / "config.pbtxt").read_text().replace("other.bin", "other.py"))
    with Server(repo, tmp_path) as s:
        assert infer(s, "renamed").status == 200
        assert s.get("/v2/models/renamed/config").json["default_model_filename"].startswith("other.")


@pytest.mark.skipif(REFERENCE, reason="Python models are completed differently")
def test_A028_A029_H011_H087_models_without_a_configuration(tmp_path):
    repo = tmp_path / "models"
    m = models.write_identity(repo, "bare")
    (m / "config.pbtxt").unlink()
    with Server(repo, tmp_path / "a") as s:
        c = s.get("/v2/models/bare/config").json
        assert (c["backend"], c["max_batch_size"], c["input"][0]["dims"]) == ("onnxruntime", 4, [16])
        assert infer(s, "bare").status == 200
    for n, option in enumerate(("--disable-auto-complete-config", "--strict-model-config=true")):
        with Server(repo, tmp_path / f"b{n}", option, "--exit-on-error=false", wait="live") as s:
            assert s.get("/v2/models/bare/ready").status == 400
            assert s.get("/v2/health/ready").status == 400


def batches(server, model):
    """{batch size: executions} from the statistics."""
    stats = server.get(f"/v2/models/{model}/stats").json["model_stats"][0]
    return {b["batch_size"]: b["compute_infer"]["count"] for b in stats["batch_stats"]}


def together(server, model, shapes):
    """Sends concurrent requests with different values. Returns the duration of the slowest."""
    faults, start = [], threading.Barrier(len(shapes) + 1)

    def one(k, shape):
        x = np.full(shape, k, np.float32)
        with th.InferenceServerClient(server.http) as c:
            c.is_server_live()  # opens the connection
            i = th.InferInput("INPUT0", x.shape, "FP32")
            i.set_data_from_numpy(x)
            start.wait()
            try:
                if not np.array_equal(c.infer(model, [i]).as_numpy("OUTPUT0"), x):
                    faults.append(f"request {k} got another one's values")
            except Exception as e:  # noqa: BLE001 - any exception fails the test
                faults.append(repr(e))

    threads = [threading.Thread(target=one, args=(k, s)) for k, s in enumerate(shapes)]
    for t in threads:
        t.start()
    start.wait()
    begin = time.monotonic()
    for t in threads:
        t.join()
    assert not faults, faults
    return time.monotonic() - begin


@pytest.fixture(scope="module")
def batchers(tmp_path_factory):
    repo = tmp_path_factory.mktemp("batchers") / "models"
    models.write_identity(repo, "alone")
    models.write_identity(repo, "unbatched", "max_batch_size: 0\n", batched=False)
    models.write_identity(repo, "preferred", "max_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 4 ] "
                                             "max_queue_delay_microseconds: 600000000 }\n")
    models.write_identity(repo, "delayed",
                          "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 3000000 }\n")
    models.write_identity(repo, "shapes",
                          "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 300000 }\n", dims=(-1,))
    models.write_identity(repo, "prompt", "max_batch_size: 8\ndynamic_batching { }\n")
    with Server(repo, repo.parent) as s:
        yield s


def test_C001_the_default_scheduler_runs_each_request_alone(batchers):
    together(batchers, "alone", [(2, 16)] * 24)
    assert batches(batchers, "alone") == {2: 24}


def test_C002_without_batching_dims_are_the_whole_shape(batchers):
    assert batchers.get("/v2/models/unbatched").json["inputs"][0]["shape"] == [16]
    ok = infer(batchers, "unbatched", {"inputs": [tensor_input("INPUT0", "FP32", [16], [1] * 16)]})
    assert ok.status == 200 and ok.json["outputs"][0]["shape"] == [16]
    assert infer(batchers, "unbatched").status == 400  # [1,16] has a batch dimension
    assert batchers.get("/v2/models/alone").json["inputs"][0]["shape"] == [-1, 16]
    too_many = {"inputs": [tensor_input("INPUT0", "FP32", [9, 16], [1] * 144)]}
    assert "batch-size must be <= 8" in infer(batchers, "alone", too_many).error


def test_C004_a_preferred_batch_runs_as_soon_as_it_is_complete(batchers):
    took = together(batchers, "preferred", [(1, 16)] * 4)
    assert batches(batchers, "preferred") == {4: 1}
    assert took < 300  # it did not wait for the queue delay of 600 s


def test_C003_C005_requests_wait_for_a_batch_until_the_delay(batchers):
    took = together(batchers, "delayed", [(1, 16)] * 3)
    assert batches(batchers, "delayed") == {3: 1}
    assert took > 2.9


def test_C019_without_a_delay_a_single_request_runs_immediately(batchers):
    together(batchers, "prompt", [(1, 16)])
    assert batches(batchers, "prompt") == {1: 1}


def test_C015_C094_different_shapes_are_not_batched(batchers):
    together(batchers, "shapes", [(1, 3), (1, 5)] * 3)
    assert sum(size * n for size, n in batches(batchers, "shapes").items()) == 6
    assert max(batches(batchers, "shapes")) <= 3


def test_C089_reshape(tmp_path):
    repo = tmp_path / "models"
    reshape = " reshape { shape: [ 4, 4 ] }"
    backend = f'backend: "{"python" if REFERENCE else "onnxruntime"}"\n'
    config = backend + "max_batch_size: 8\n" + models.tensors("input", [("INPUT0", "FP32", [16])], reshape)
    models.write(repo / "reshaped/config.pbtxt",
                 config + models.tensors("output", [("OUTPUT0", "FP32", [16])], reshape))
    if REFERENCE:
        models.write(repo / "reshaped/1/model.py", models.PYTHON_HEAD + models.identity_python(("INPUT0", "OUTPUT0")))
    else:
        nodes = [helper.make_node("Transpose", ["INPUT0"], ["T"], perm=[0, 2, 1]),
                 helper.make_node("Transpose", ["T"], ["OUTPUT0"], perm=[0, 2, 1])]
        models.onnx_graph(repo / "reshaped/1/model.onnx", nodes, [("INPUT0", "FP32", [4, 4])],
                          [("OUTPUT0", "FP32", [4, 4])])
    with Server(repo, tmp_path) as s:
        assert s.get("/v2/models/reshaped").json["inputs"][0]["shape"] == [-1, 16]
        a = infer(s, "reshaped", {"inputs": [tensor_input("INPUT0", "FP32", [2, 16], list(range(32)))]}).json
        assert a["outputs"][0]["shape"] == [2, 16] and a["outputs"][0]["data"] == [float(i) for i in range(32)]


WARMUP = """max_batch_size: 8
model_warmup {{ name: "w" batch_size: 2 count: 3
  inputs {{ key: "INPUT0" value {{ data_type: TYPE_FP32 dims: 16 {} }} }} }}
"""


@pytest.mark.parametrize("data", ["zero_data: true", "random_data: true", 'input_data_file: "row"'])
def test_C082_I014_DV23_warmup(tmp_path, data):
    repo = tmp_path / "models"
    m = models.write_identity(repo, "warmed", WARMUP.format(data))
    if "file" in data:
        (m / "warmup").mkdir()
        (m / "warmup/row").write_bytes(np.arange(16, dtype="<f4").tobytes())
    with Server(repo, tmp_path) as s:
        assert infer(s, "warmed").status == 200
        assert s.get("/v2/models/warmed/config").json["model_warmup"][0]["count"] == 3
        # Warmup executions do not count as requests of clients.
        assert s.get("/v2/models/warmed/stats").json["model_stats"][0]["inference_count"] == deviates(7, 1)


def test_C082_a_failed_warmup_fails_the_load(tmp_path):
    repo = tmp_path / "models"
    models.write_identity(repo, "cold", WARMUP.format('input_data_file: "absent"'))
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        state, reason = s.index()[("cold", "1")]
        assert state == "UNAVAILABLE" and "absent" in reason
        assert s.get("/v2/models/cold/ready").status == 400


def test_C082_DV115_a_warmup_sample_without_a_batch_size_is_run(tmp_path):
    repo = tmp_path / "models"
    sample = WARMUP.format('input_data_file: "absent"').replace("batch_size: 2 ", "")
    assert "batch_size" not in sample.split("model_warmup")[1]
    models.write_identity(repo, "cold", sample)
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        assert s.index()[("cold", "1")][0] == deviates("READY", "UNAVAILABLE")


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")
def test_C073_no_gpu(tmp_path):
    repo = tmp_path / "models"
    models.write_identity(repo, "anywhere", "max_batch_size: 8\ninstance_group { kind: KIND_AUTO count: 1 }\n")
    models.write_identity(repo, "on_gpu", "max_batch_size: 8\ninstance_group { kind: KIND_GPU count: 1 }\n")
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        assert s.get("/v2/models/anywhere/config").json["instance_group"][0]["kind"] == "KIND_CPU"
        assert infer(s, "anywhere").status == 200
        assert s.get("/v2/models/on_gpu/ready").status == 400
        reasons = [r for (n, _), (_, r) in s.index().items() if n == "on_gpu"]
        assert REFERENCE or any("GPU" in r for r in reasons), reasons


def test_F047_json_in_common_formats(server):
    """curl's default content type, spaces and line ends, and integers in place of floats."""
    body = (b'{\n  "inputs" : [ { "name":"INPUT0", "shape":[1,16],\r\n "datatype":"FP32", '
            b'"data":[ [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16] ] } ]\n}\n')
    a = server.request("POST", "/v2/models/plain/versions/1/infer", body,
                       {"Content-Type": "application/x-www-form-urlencoded"})
    assert a.status == 200 and a.json["outputs"][0]["data"] == [float(i) for i in range(1, 17)]


def test_G018_probes_may_use_an_address_as_host(server):
    """Orchestrators send probes to an address."""
    host, port = server.http.split(":")
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert server.request("GET", path, headers={"Host": f"{host}:{port}"}).status == 200


@pytest.mark.skipif(REFERENCE, reason="tests this server's shutdown")
def test_G019_H008_an_idle_server_exits_immediately_with_status_0(good, tmp_path):
    with Server(good, tmp_path, "--exit-timeout-secs=600") as s:
        assert s.stop(limit=300) == 0  # without requests in flight it must not wait for its limit
        assert "successfully unloaded 'plain' version 1" in s.log()


@pytest.mark.skipif(REFERENCE, reason="the reference has no GUI")
def test_B023_the_gui_has_a_separate_port(server):
    address = server.ui_address
    page = server.request("GET", "/", address=address)
    assert page.status == 200 and page.headers["content-type"].startswith("text/html") and b"<script" in page.body
    assert server.request("GET", "/v2/health/live", address=address).status != 200 or address != server.http
    assert server.get("/api/models").status == 404
    stranger = server.request("GET", "/api/models", headers={"Origin": "http://elsewhere.example"}, address=address)
    assert stranger.status == 403
    renamed = server.request("GET", "/api/models", headers={"Host": "elsewhere.example"}, address=address)
    assert renamed.status in (403, 421)
    forged = server.request("POST", "/api/models/plain/unload", b"{}", {"Content-Type": "text/plain"}, address=address)
    assert forged.status in (400, 403, 415) and server.state("plain") == "READY"


def test_A048_a_listed_version_that_is_missing_is_reported(tmp_path):
    policy = "version_policy { specific { versions: [1, 5] } }\n"
    models.write_plus_version(tmp_path / "models", versions=(1, 2), config=policy)
    with Server(tmp_path / "models", tmp_path) as s:
        assert s.get("/v2/models/plus_version").json["versions"] == ["1"]
        text = "version 5 is specified for model 'plus_version', but the version directory is not present"
        assert s.log().count(text) == 1, s.log()


@pytest.mark.skipif(REFERENCE, reason="Triton has another text")
def test_A038_an_ensemble_of_another_platform_is_refused_by_its_platform(tmp_path):
    repo = tmp_path / "models"
    models.write(repo / "e/config.pbtxt", 'platform: "onnxruntime_onnx" ensemble_scheduling { step [ { model_name: "m" '
                 'model_version: -1 input_map { key: "I" value: "I" } output_map { key: "O" value: "O" } } ] }\n' +
                 models.tensors("input", [("I", "FP32", [1])]) + models.tensors("output", [("O", "FP32", [1])]))
    (repo / "e/1").mkdir()
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        state, reason = s.index()[("e", "1")]
        assert state == "UNAVAILABLE" and 'write platform: "ensemble"' in reason, reason


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
def test_DV106_versions_that_load_serve_though_another_fails(tmp_path):
    repo = tmp_path / "models"
    models.write_plus_version(repo, versions=(1, 3), config="version_policy { all { } }\n")
    models.write(repo / "plus_version/3/model.onnx", "no model")
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        assert s.state("plus_version", "3") == "UNAVAILABLE" and s.get("/v2/health/ready").status == 200
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]}
        assert s.post("/v2/models/plus_version/infer", body).json["outputs"][0]["data"] == [1] * 16


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
def test_DV106_a_python_version_that_cannot_be_imported_leaves_the_others_in_service(tmp_path):
    """The newest version completes the configuration, by its own code."""
    code = textwrap.dedent("""
        import numpy as np
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            @staticmethod
            def auto_complete_config(config):
                config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
                config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
                return config
            def execute(self, requests):
                one = pb_utils.Tensor("OUT", np.ones(1, np.int32))
                return [pb_utils.InferenceResponse([one]) for _ in requests]
    """)
    repo = tmp_path / "models"
    models.write(repo / "m/config.pbtxt", 'backend: "python" version_policy { all { } }\n')
    for version, text in (("1", code), ("2", code), ("3", "def (")):
        models.write(repo / f"m/{version}/model.py", text)
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [0]}]}
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m", "--exit-on-error=false",
                wait="live") as s:
        index = s.index()
        assert [index["m", v][0] for v in "123"] == ["READY", "READY", "UNAVAILABLE"], index
        assert s.get("/v2/health/ready").status == 200
        assert s.post("/v2/models/m/infer", body).json["model_version"] == "2"
        models.write(repo / "m/2/model.py", code + "# changed\n")
        reply = s.post("/v2/repository/models/m/load", {})
        assert (reply.status, reply.error.count(" is at "), "version 3 is at" in reply.error) == (400, 1, True), reply
        assert s.post("/v2/models/m/infer", body).json["model_version"] == "2"
        assert s.index()["m", "2"] == ("READY", "")


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
def test_DV111_a_process_that_exits_while_it_loads_says_how(tmp_path):
    repo = tmp_path / "models"
    io = [models.tensors(kind, [("X", "FP32", [1])]) for kind in ("input", "output")]
    models.write(repo / "killed/config.pbtxt", 'backend: "python"\n' + "".join(io))
    models.write(repo / "killed/1/model.py", """import os


class TritonPythonModel:
    def initialize(self, args):
        os.kill(os.getpid(), 9)

    def execute(self, requests):
        return []
""")
    with Server(repo, tmp_path, "--exit-on-error=false", wait="live") as s:
        state, reason = s.index()[("killed", "1")]
        assert state == "UNAVAILABLE", state
        assert "the process of model instance 'killed_0' ended" in reason and "signal 9 (killed)" in reason, reason


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
def test_DV114_a_change_of_resources_does_not_wait_for_a_request(tmp_path):
    repo, seen = tmp_path / "models", tmp_path / "seen"
    seen.mkdir()
    io = "".join(models.tensors(kind, [("X", "FP32", [1])]) for kind in ("input", "output"))

    def config(count):
        resources = f'rate_limiter {{ resources [ {{ name: "R" count: {count} }} ] }}'
        return f'backend: "python"\n{io}instance_group [ {{ count: 1 kind: KIND_CPU {resources} }} ]\n'

    models.write(repo / "m/config.pbtxt", config(1))
    models.write(repo / "m/1/model.py", models.PYTHON_HEAD + f"""    def execute(self, requests):
        import pathlib
        import time

        seen = pathlib.Path({str(seen)!r})
        (seen / "running").touch()
        while not (seen / "go").exists():
            time.sleep(0.01)
        return [pb.InferenceResponse([pb.Tensor("X", np.ones(1, np.float32))]) for _ in requests]

    def finalize(self):
        open({str(seen / "ended")!r}, "w").close()
""")
    options = ["--model-control-mode=explicit", "--load-model=m", "--rate-limit=execution_count"]
    with Server(repo, tmp_path, *options) as s, ThreadPoolExecutor() as pool:
        body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [0]}]}
        reply = pool.submit(s.post, "/v2/models/m/infer", body)
        until((seen / "running").exists, 60, "the request runs")
        models.write(repo / "m/config.pbtxt", config(2))
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        assert not reply.done() and not (seen / "ended").exists()
        (seen / "go").touch()
        assert reply.result().json["outputs"][0]["data"] == [1]
        until((seen / "ended").exists, 60, "the old instance ends")


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
def test_DV113_a_variable_for_tests_of_triton_holds_no_request_back(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "8")
    models.write_identity(tmp_path / "models", "m", "max_batch_size: 8\ndynamic_batching { }\n")
    with Server(tmp_path / "models", tmp_path) as s:
        data = list(range(16))
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": data}
        reply = s.post("/v2/models/m/infer", {"inputs": [tensor]})
        assert reply.status == 200 and reply.json["outputs"][0]["data"] == data, reply


@pytest.mark.skipif(REFERENCE, reason="Triton differs: see docs/deviations.csv")
@pytest.mark.parametrize("strict", [True, False])
def test_DV107_a_server_with_a_model_whose_configuration_is_at_fault_is_not_ready(good, tmp_path, strict):
    shutil.copytree(good, tmp_path / "models")
    models.write(tmp_path / "models/bad/config.pbtxt", "max_batch_size: many")
    with Server(tmp_path / "models", tmp_path, "--exit-on-error=false", f"--strict-readiness={strict}".lower(),
                wait="live") as s:
        assert s.state("plain") == "READY" and s.get("/v2/models/bad").status == 404
        assert s.get("/v2/health/ready").status == (400 if strict else 200)
