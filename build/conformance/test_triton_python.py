"""NVIDIA's own libraries of the package nvidia-pytriton, unmodified: the Python backend, and the cache.

`make test-frameworks` installs the package into .cache/bench (build/bench/reference.sh) and runs these tests."""

import pathlib
import queue
import shutil

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

import models
from harness import BINARY, ROOT, Server, until

VENV = ROOT / ".cache/bench/venv"
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600),
              pytest.mark.skipif(not (VENV / "done").exists(), reason="make test-frameworks installs nvidia-pytriton")]

SITE = VENV / "lib/python3.11/site-packages"

HEAD = "import numpy as np\nimport triton_python_backend_utils as pb\n\n\nclass TritonPythonModel:\n"
MODELS = {
    "add_sub": ("max_batch_size: 8 dynamic_batching { }", HEAD + """
    @staticmethod
    def auto_complete_config(config):
        for name in ("A", "B"):
            config.add_input({"name": name, "data_type": "TYPE_FP32", "dims": [-1]})
        for name in ("SUM", "DIFFERENCE"):
            config.add_output({"name": name, "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def execute(self, requests):
        answers = []
        for r in requests:
            a, b = (pb.get_input_tensor_by_name(r, n).as_numpy() for n in ("A", "B"))
            answers.append(pb.InferenceResponse([pb.Tensor("SUM", a + b), pb.Tensor("DIFFERENCE", a - b)]))
        return answers
"""),
    "count": ("""model_transaction_policy { decoupled: true }
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "I" data_type: TYPE_INT32 dims: [ 1 ] }""",
              HEAD + """
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb.get_input_tensor_by_name(r, "N").as_numpy()[0])):
                sender.send(pb.InferenceResponse([pb.Tensor("I", np.array([i], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""),
    "calls": ("""input { name: "A" data_type: TYPE_FP32 dims: [ 1, -1 ] }
output { name: "SUM" data_type: TYPE_FP32 dims: [ 1, -1 ] } output { name: "COUNTED" data_type: TYPE_INT32 dims: [ 1 ] }""",
              HEAD + """
    def execute(self, requests):
        answers = []
        for r in requests:
            a = pb.get_input_tensor_by_name(r, "A")
            b = pb.Tensor("B", np.ones_like(a.as_numpy()))
            n = pb.Tensor("N", np.array([3], np.int32))

            def ask(model, output, *inputs):
                return pb.InferenceRequest(model_name=model, requested_output_names=[output], inputs=list(inputs))

            added = ask("add_sub", "SUM", pb.Tensor("A", a.as_numpy()), b).exec()
            seen = [x for x in ask("count", "I", n).exec(decoupled=True) if x.output_tensors()]
            missing = ask("nobody", "X", n).exec()
            if added.has_error() or not missing.has_error():
                answers.append(pb.InferenceResponse(error=pb.TritonError("the calls went wrong")))
                continue
            total = pb.get_output_tensor_by_name(added, "SUM").as_numpy()
            answers.append(pb.InferenceResponse([
                pb.Tensor("SUM", total), pb.Tensor("COUNTED", np.array([len(seen)], np.int32))]))
        return answers
"""),
    "notes": ("""input { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }""",
              HEAD + """
    def initialize(self, args):
        pb.Logger.log_warn("the notes begin")
        self.family = pb.MetricFamily("notes_total", "how many notes", pb.MetricFamily.COUNTER)
        self.metric = self.family.Metric(labels={"kind": "note"})

    def execute(self, requests):
        answers = []
        for r in requests:
            a = pb.get_input_tensor_by_name(r, "A")
            self.metric.increment(float(a.as_numpy()[0]))
            if a.as_numpy()[0] == 0:
                answers.append(pb.InferenceResponse(error=pb.TritonError("zero is refused")))
            else:
                answers.append(pb.InferenceResponse([pb.Tensor("OUT", a.as_numpy())]))
        return answers
"""),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("nvidia")
    package = SITE / "pytriton/tritonserver"
    folder = work / "backends/python"
    shutil.copytree(package / "backends/python", folder)
    shutil.copy(package / "python_backend_stubs/3.11/triton_python_backend_stub", folder)
    for name, (config, code) in MODELS.items():
        version = work / "models" / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(code)
        (version.parent / "config.pbtxt").write_text(f'backend: "python" runtime: "libtriton_python.so"\n{config}\n')
    before = shared()
    # The stub takes NumPy from the first Python of the path; it returns nothing with NumPy 2.
    command = ["env", f"PATH={VENV}/bin:/usr/bin:/bin", f"LD_LIBRARY_PATH={SITE}/nvidia_pytriton.libs",
               BINARY, "serve"]
    # On a busy machine a stub may start slower than in the library's 30 seconds.
    with Server(work / "models", work, f"--backend-directory={work}/backends", "--model-env=LD_LIBRARY_PATH",
                "--backend-config=python,stub-timeout-seconds=300", command=command, limit=300) as s:
        yield s
    assert shared() == before, "shared memory is left"


def shared():
    return set(pathlib.Path("/dev/shm").glob("triton_python_backend*"))


def tensor(name, values):
    t = grpcclient.InferInput(name, values.shape, "INT32" if values.dtype == np.int32 else "FP32")
    t.set_data_from_numpy(values)
    return t


def test_D076_nvidias_backend_completes_the_configuration_and_adds(server):
    assert [i["name"] for i in server.get("/v2/models/add_sub/config").json["input"]] == ["A", "B"]
    rng = np.random.default_rng(1)
    with grpcclient.InferenceServerClient(server.grpc) as client:
        for size in (3, 100_000):
            a, b = (rng.random((2, size), np.float32) for _ in range(2))
            result = client.infer("add_sub", [tensor("A", a), tensor("B", b)])
            assert np.array_equal(result.as_numpy("SUM"), a + b)
            assert np.array_equal(result.as_numpy("DIFFERENCE"), a - b)
            only = client.infer("add_sub", [tensor("A", a), tensor("B", b)],
                                outputs=[grpcclient.InferRequestedOutput("SUM")])
            assert only.as_numpy("DIFFERENCE") is None


def test_D076_nvidias_backend_streams(server):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("count", [tensor("N", np.array([5], np.int32))], enable_empty_final_response=True)
        got = []
        while True:
            result, error = answers.get(timeout=60)
            assert error is None, error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            got.append(int(result.as_numpy("I")[0]))
        assert got == [0, 1, 2, 3, 4]


def test_D076_nvidias_backend_calls_other_models(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        for size in (4, 50_000):
            a = np.arange(size, dtype=np.float32).reshape(1, -1)
            result = client.infer("calls", [tensor("A", a)])
            assert np.array_equal(result.as_numpy("SUM"), a + 1)
            assert result.as_numpy("COUNTED").tolist() == [3]


def test_D076_nvidias_backend_logs_and_makes_metrics(server):
    assert "the notes begin" in server.log()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.infer("notes", [tensor("A", np.array([2.5], np.float32))])
        with pytest.raises(Exception, match="zero is refused"):
            client.infer("notes", [tensor("A", np.array([0], np.float32))])
    line = 'notes_total{kind="note"} 2.5'
    until(lambda: line in server.request("GET", "/metrics", address=server.metrics).body.decode(), 30, line, server.log)


def test_C081_nvidias_cache_answers(tmp_path):
    """The library of Triton's local cache, under another name: that of the built-in cache is local."""
    folder = tmp_path / "caches/nvidia"
    folder.mkdir(parents=True)
    library = SITE / "pytriton/tritonserver/caches/local/libtritoncache_local.so"
    shutil.copy(library, folder / "libtritoncache_nvidia.so")
    models.write_sums(tmp_path / "models", "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    command = ["env", f"LD_LIBRARY_PATH={SITE}/nvidia_pytriton.libs", BINARY, "serve"]
    options = (f"--cache-directory={tmp_path}/caches", "--cache-config=nvidia,size=1048576",
               "--model-env=LD_LIBRARY_PATH")
    with Server(tmp_path / "models", tmp_path, *options, command=command) as server:
        with httpclient.InferenceServerClient(server.http) as client:
            for value in (1, 2, 1, 2, 1):
                inputs = [httpclient.InferInput(name, (1, 16), "INT32") for name in ("INPUT0", "INPUT1")]
                for i in inputs:
                    i.set_data_from_numpy(np.full((1, 16), value, np.int32))
                result = client.infer("sums", inputs)
                assert (result.as_numpy("OUTPUT0") == 2 * value).all() and (result.as_numpy("OUTPUT1") == 0).all()
        stats = server.get("/v2/models/sums/stats").json["model_stats"][0]["inference_stats"]
        assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (3, 2)
        metrics = server.request("GET", "/metrics", address=server.metrics).body.decode()
        assert 'nv_cache_num_hits_per_model{model="sums",version="1"} 3' in metrics
