"""Models, metrics and options on a real NVIDIA GPU. make test-gpu runs it; without a GPU it is skipped, so names have
only ids of features that make test-gpu proves.

test_gpus.py tests the same on a simulated machine with two GPUs, and test_cuda.py the memory of clients."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tritonclient.http as th

import models
from gpus import REAL
from harness import BINARY, ROOT, Server, until
from test_gpus import MIB, ask, states

pytestmark = pytest.mark.skipif(not REAL, reason="it needs a GPU: make test-gpu")

LIBRARY = ROOT / ".cache/gpu"
ON_GPU = "instance_group [ { kind: KIND_GPU } ]\n"

# A Python model that takes memory of its GPU, and returns its arguments.
HOLDS = """
import ctypes, json, os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.said = [args["model_instance_kind"], args["model_instance_device_id"], args["model_instance_name"],
                     os.environ.get("CUDA_VISIBLE_DEVICES", "unset"), os.getpid()]
        cuda, context, where = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(self.said[1])),
                       cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(where), ctypes.c_size_t(%d))):
            assert status == 0, status

    def execute(self, requests):
        answer = pb_utils.Tensor("OUT", np.array([json.dumps(self.said)], dtype=object))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""


def smi(fields):
    """What nvidia-smi says of GPU 0."""
    said = subprocess.run(["nvidia-smi", "--id=0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                          check=True, capture_output=True, text=True).stdout
    return [word.strip() for word in said.strip().split(",")]


def serve(repo, work, *options, command=None, wait="ready"):
    return Server(repo, work, f"--onnxruntime-library={LIBRARY}", *options, command=command, wait=wait, limit=300)


def sample(repo, name, target=None, config=ON_GPU):
    """Copies a sample model, with other instances."""
    folder = repo / (target or name)
    shutil.copytree(ROOT / "models-sample" / name, folder)
    text = (folder / "config.pbtxt").read_text()
    text = re.sub(r"(?m)^(name:|instance_group).*\n", "", text)
    (folder / "config.pbtxt").write_text(text + config)
    return folder


def holds(repo, name, size, config=ON_GPU):
    models.write(repo / name / "1/model.py", HOLDS % size)
    models.write(repo / name / "config.pbtxt", 'backend: "python"\ninput [ { name: "IN" data_type: TYPE_INT32 '
                 'dims: [ 1 ] } ]\noutput [ { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] } ]\n' + config)


def plus(client, model="plus_version", row=None):
    row = np.arange(16, dtype=np.float32).reshape(1, 16) if row is None else row
    i = th.InferInput("INPUT0", [1, 16], "FP32")
    i.set_data_from_numpy(row)
    return client.infer(model, [i]).as_numpy("OUTPUT0") - row


def metrics(server):
    return server.request("GET", "/metrics", address=server.metrics).body.decode()


def figures(server):
    """The metrics of GPUs without their labels."""
    lines = re.finditer(r"(?m)^(nv_(?:gpu|energy)\w+)\{gpu_uuid=[^}]*\} (\S+)$", metrics(server))
    return {m[1]: float(m[2]) for m in lines}


@contextlib.contextmanager
def clients(server, count, infer):
    """Clients that call infer(client, their number) until the block ends. An error of one fails the test then."""
    end, failed = threading.Event(), []

    def work(k):
        try:
            with th.InferenceServerClient(server.http) as c:
                while not end.is_set():
                    infer(c, k)
        except Exception as e:  # raised below
            failed.append(e)

    threads = [threading.Thread(target=work, args=[k]) for k in range(count)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        end.set()
        for t in threads:
            t.join()
    assert failed == []


class Hog:
    """GPU memory of this process."""

    def __init__(self, size):
        self.cuda, self.context, self.where = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        for status in (self.cuda.cuInit(0), self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0),
                       self.cuda.cuCtxPushCurrent_v2(self.context),
                       self.cuda.cuMemAlloc_v2(ctypes.byref(self.where), ctypes.c_size_t(size)),
                       self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))):
            assert status == 0, status

    def free(self):
        assert self.cuda.cuCtxPushCurrent_v2(self.context) == self.cuda.cuMemFree_v2(self.where) == 0
        self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        self.cuda.cuDevicePrimaryCtxRelease_v2(0)


def test_A015_the_file_for_the_capability_of_the_card(tmp_path):
    repo, (capability,) = tmp_path / "models", smi("compute_cap")
    names = f'cc_model_filenames [ {{ key: "{capability}" value: "card.onnx" }}, {{ key: "1.0" value: "old.onnx" }} ]\n'
    models.write_plus_version(repo, config=ON_GPU + names, versions=(1, 2))
    shutil.copy(repo / "plus_version/2/model.onnx", repo / "plus_version/1/card.onnx")  # it adds 2
    shutil.rmtree(repo / "plus_version/2")
    with serve(repo, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        np.testing.assert_array_equal(plus(c), np.full((1, 16), 2, np.float32))


def test_A073_H085_no_load_onto_a_full_card(tmp_path):
    models.write_plus_version(tmp_path / "models", config=ON_GPU)
    hog = Hog(4096 * MIB)
    try:
        total, used = map(float, smi("memory.total,memory.used"))
        limit = (used - 1024) / total
        with serve(tmp_path / "models", tmp_path, "--model-control-mode=explicit",
                   f"--model-load-gpu-limit=0:{limit:.5f}") as s, th.InferenceServerClient(s.http) as c:
            refused = s.post("/v2/repository/models/plus_version/load")
            assert refused.status == 400 and "is in use and the limit is" in refused.error
            hog.free()
            hog = None
            c.load_model("plus_version")
            assert plus(c)[0, 0] == 1
    finally:
        if hog:
            hog.free()


def test_C059_instances_on_the_card(tmp_path):
    repo = tmp_path / "models"
    holds(repo, "two", 1, "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]\n")
    holds(repo, "open", 1, "")
    models.write_plus_version(repo)  # it says nothing of instances
    sample(repo, "add_sub", "far", "instance_group [ { kind: KIND_GPU gpus: [ 31 ] } ]\n")
    sample(repo, "add_sub", "both", "instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]\n")
    with serve(repo, tmp_path, "--exit-on-error=false", wait="live") as s, th.InferenceServerClient(s.http) as c:
        until(lambda: [s.state(m) for m in ("far", "both", "two")] == ["UNAVAILABLE", "READY", "READY"], 120,
              "not loaded", s.log)
        assert "31" in s.index()["far", "1"][1]
        asked = [ask(c, "two") for _ in range(20)]
        assert {tuple(a[:2]) for a in asked} == {("GPU", "0")}
        assert {a[2] for a in asked} <= {"two_0_0_gpu0", "two_0_1_gpu0"}
        assert ask(c, "open")[:2] == ["GPU", "0"]
        assert plus(c)[0, 0] == 1
        groups = {m: c.get_model_config(m)["instance_group"] for m in ("plus_version", "two", "both")}
        assert [(g["kind"], g["gpus"], g["count"]) for g in groups["plus_version"]] == [("KIND_GPU", [0], 1)]
        assert [(g["kind"], g["gpus"], g["count"]) for g in groups["two"]] == [("KIND_GPU", [0], 2)]
        assert [(g["kind"], g["gpus"]) for g in groups["both"]] == [("KIND_CPU", []), ("KIND_GPU", [0])]


def test_C068_H082_a_card_below_the_least_capability_is_not_used(tmp_path):
    repo = tmp_path / "models"
    sample(repo, "add_sub", "auto", "")
    sample(repo, "add_sub", "gpu")
    with serve(repo, tmp_path, "--exit-on-error=false", "--min-supported-compute-capability=99",
               wait="live") as s, th.InferenceServerClient(s.http) as c:
        until(lambda: s.state("auto") == "READY" and s.state("gpu") == "UNAVAILABLE", 120, "not loaded", s.log)
        assert c.get_model_config("auto")["instance_group"][0]["kind"] == "KIND_CPU"
        assert "compute capability" in s.index()["gpu", "1"][1] or "no GPUs are available" in s.index()["gpu", "1"][1]
        assert "its compute capability is below --min-supported-compute-capability" in s.log()


@pytest.mark.parametrize("hidden", [False, True], ids=["by UUID", "none"])
def test_G022_the_cards_that_the_environment_names(tmp_path, hidden):
    (uuid,) = smi("uuid")
    repo = tmp_path / "models"
    sample(repo, "add_sub", "gpu")
    command = ["env", f"CUDA_VISIBLE_DEVICES={'' if hidden else uuid}", BINARY]
    said = subprocess.run([*command, "devices", f"--data-dir={tmp_path / 'other'}"], check=True, capture_output=True,
                          text=True).stdout
    print(said)
    assert (uuid in said) == (not hidden)
    with serve(repo, tmp_path, "--exit-on-error=false", command=[*command, "serve"], wait="live") as s:
        state = "UNAVAILABLE" if hidden else "READY"
        until(lambda: s.state("gpu") == state, 120, "not loaded", s.log)
        assert not hidden or "no GPUs are available" in s.index()["gpu", "1"][1]


def test_E019_E020_E021_E022_the_metrics_agree_with_nvidia_smi(tmp_path):
    sample(tmp_path / "models", "digits")
    picture = th.InferInput("image", [16, 1, 28, 28], "FP32")
    picture.set_data_from_numpy(np.zeros((16, 1, 28, 28), np.float32))
    with serve(tmp_path / "models", tmp_path, "--metrics-interval-ms=100") as s:
        with clients(s, 4, lambda c, _: c.infer("digits", [picture])):
            until(lambda: figures(s).get("nv_gpu_utilization", 0) > 0, 60, "the card does nothing", s.log)
            enough = figures(s)["nv_energy_consumption"] + 20
            until(lambda: figures(s)["nv_energy_consumption"] > enough, 60, "no energy", s.log)
            until(lambda: abs(figures(s)["nv_gpu_memory_used_bytes"] - float(smi("memory.used")[0]) * MIB) < 2 * MIB,
                  60, "nvidia-smi says another memory", s.log)
            later = figures(s)
            total, power, limit = map(float, smi("memory.total,power.draw,power.limit"))
        print(later, total, power, limit)
        assert later["nv_gpu_memory_total_bytes"] == pytest.approx(total * MIB, rel=1e-3)
        assert later["nv_gpu_power_limit"] == pytest.approx(limit, rel=0.01)
        assert 0.3 * power < later["nv_gpu_power_usage"] < 3 * power
        assert 0 <= later["nv_gpu_utilization"] <= 1  # it was above 0


def test_H065_without_metrics_of_gpus(tmp_path):
    sample(tmp_path / "models", "add_sub")
    with serve(tmp_path / "models", tmp_path, "--allow-gpu-metrics=false") as s:
        assert figures(s) == {} and "nv_inference_count" in metrics(s)


def test_C087_memory_of_models_on_the_card(tmp_path):
    """An ONNX model reports what its allocator holds, a Python model what the driver says of its process."""
    repo = tmp_path / "models"
    sample(repo, "mlp", config=ON_GPU + 'optimization { execution_accelerators { gpu_execution_accelerator [ '
           '{ name: "cuda" parameters { key: "cudnn_conv_algo_search" value: "HEURISTIC" } } ] } }\n')
    holds(repo, "holds", 600 * MIB)
    with serve(repo, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        i = th.InferInput("input", [1, 784], "FP32")
        i.set_data_from_numpy(np.zeros((1, 784), np.float32))
        c.infer("mlp", [i])
        ask(c, "holds")
        until(lambda: states(s)["holds"].get("gpuBytes", 0) >= 600 * MIB, 60, "the memory is not reported", s.log)
        usage = {m: c.get_inference_statistics(m)["model_stats"][0].get("memory_usage", []) for m in ("mlp", "holds")}
        print(usage, {m: (v.get("gpuBytes"), v.get("gpuSource")) for m, v in states(s).items()})
        of = {m: {u["type"]: u["byte_size"] for u in v} for m, v in usage.items()}
        weights = 4 * (784 * 512 + 512 * 512 + 512 * 10)
        assert weights <= of["mlp"]["GPU"] < weights + 64 * MIB
        assert 600 * MIB <= of["holds"]["GPU"] < 2000 * MIB  # with the driver's context


def test_models_stay_within_the_memory_budget_of_the_card(tmp_path):
    for name in ("a", "b"):
        holds(tmp_path / "models", name, 600 * MIB)
    with serve(tmp_path / "models", tmp_path,
               "--model-memory-budget-gpu=0:1800MiB") as s, th.InferenceServerClient(s.http) as c:
        for name in ("a", "b", "a", "b"):
            assert ask(c, name)[0] == "GPU"
            until(lambda: states(s)[name]["gpuBytes"] >= 600 * MIB, 60, "the memory is not reported", s.log)
            now = states(s)
            print({m: (now[m]["resident"], now[m]["gpuBytes"]) for m in now})
            assert sum(m["gpuBytes"] for m in now.values() if m["resident"]) <= 1800 * MIB


BODY = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [0]}]}


def test_a_process_that_is_killed_gives_the_memory_of_the_card_back(tmp_path):
    holds(tmp_path / "models", "m", 2000 * MIB)
    with serve(tmp_path / "models", tmp_path) as s, th.InferenceServerClient(s.http) as c:
        used = float(smi("memory.used")[0])
        for _ in range(3):
            old = ask(c, "m")[4]
            os.kill(old, signal.SIGKILL)
            until(lambda: s.post("/v2/models/m/infer", BODY).status == 200 and ask(c, "m")[4] != old, 60,
                  "it does not come back", s.log)
        assert abs(float(smi("memory.used")[0]) - used) < 200


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_D006_reloads_under_load_on_the_card(tmp_path, isolation):
    """No request fails while a model on the card is replaced, and the memory does not grow."""
    where = 'parameters { key: "isolation" value { string_value: "%s" } }\n' % isolation
    models.write_plus_version(tmp_path / "models", config=ON_GPU + where)
    added, used = [], []
    with serve(tmp_path / "models", tmp_path, "--model-control-mode=explicit",
               "--load-model=*") as s, th.InferenceServerClient(s.http) as c:
        plus(c)
        with clients(s, 4, lambda client, _: added.append(plus(client)[0, 0])):
            for _ in range(6):
                c.load_model("plus_version")
                used.append(float(smi("memory.used")[0]))
        print(f"{isolation}: {len(added)} requests, memory {used} MiB")
        assert set(added) == {1} and len(added) > 6
        assert used[-1] <= used[1] + 200


def test_D006_an_ensemble_of_models_on_the_card_and_on_the_cpu(tmp_path):
    repo = tmp_path / "models"
    for name, config in (("a", ON_GPU), ("b", ""), ("c", "instance_group [ { kind: KIND_CPU } ]\n")):
        models.write_plus_version(repo, name, config)
    io = 'name: "%s" data_type: TYPE_FP32 dims: [ 16 ]'
    steps = ", ".join('{ model_name: "%s" model_version: -1 input_map { key: "INPUT0" value: "%s" } '
                      'output_map { key: "OUTPUT0" value: "%s" } }' % step
                      for step in (("a", "INPUT0", "one"), ("b", "one", "two"), ("c", "two", "OUTPUT0")))
    models.write(repo / "all/config.pbtxt", f'platform: "ensemble"\nmax_batch_size: 32\ninput [ {{ {io % "INPUT0"} }} '
                 f']\noutput [ {{ {io % "OUTPUT0"} }} ]\nensemble_scheduling {{ step [ {steps} ] }}\n')
    (repo / "all/1").mkdir()
    with serve(repo, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        np.testing.assert_array_equal(plus(c, "all"), np.full((1, 16), 3, np.float32))


def test_D006_batches_of_all_sizes_through_convolutions(tmp_path):
    """The card gives the answers of the CPU, whatever the rows that are batched. Prints the rows per second."""
    repo, seconds = tmp_path / "models", 5
    sample(repo, "digits", "card")
    sample(repo, "digits", "cpu", "instance_group [ { kind: KIND_CPU } ]\n")
    batches = [np.random.default_rng(n).random((n, 1, 28, 28), np.float32) for n in (1, 2, 3, 4, 5)]
    with serve(repo, tmp_path) as s, th.InferenceServerClient(s.http) as c:
        def infer(client, model, batch):
            i = th.InferInput("image", batch.shape, "FP32")
            i.set_data_from_numpy(batch)
            return client.infer(model, [i]).as_numpy("scores")

        want, rows, turns = [infer(c, "cpu", b) for b in batches], [0] * 8, list(range(8))

        def check(client, k):
            turns[k] += 1
            n = turns[k] % len(batches)
            np.testing.assert_allclose(infer(client, "card", batches[n]), want[n], atol=1e-3)
            rows[k] += len(batches[n])

        end = time.monotonic() + seconds
        with clients(s, 8, check):
            until(lambda: time.monotonic() > end, 60, "the time stands still")
        print(f"{sum(rows) / seconds:.0f} rows/s")
        assert min(rows) > 0


TORCH = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 + float(x.is_cuda)


torch.jit.script(Net()).save("model.pt")
"""


def test_torchscript_on_the_card(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "models/net"
    (folder / "1").mkdir(parents=True)
    models.write(tmp_path / "net.py", TORCH)  # TorchScript reads the source
    subprocess.run([sys.executable, tmp_path / "net.py"], cwd=folder / "1", check=True)
    models.write(folder / "config.pbtxt", 'backend: "pytorch"\ninput [ { name: "INPUT__0" data_type: TYPE_FP32 '
                 'dims: [ 4 ] } ]\noutput [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 4 ] } ]\n' + ON_GPU)
    with serve(tmp_path / "models", tmp_path) as s, th.InferenceServerClient(s.http) as c:
        i = th.InferInput("INPUT__0", [4], "FP32")
        i.set_data_from_numpy(np.arange(4, dtype=np.float32))
        assert c.infer("net", [i]).as_numpy("OUTPUT__0").tolist() == [1, 3, 5, 7]  # on the CPU [0, 2, 4, 6]


def test_perf_collects_the_metrics_of_the_card(tmp_path):
    sample(tmp_path / "models", "mlp")
    with serve(tmp_path / "models", tmp_path) as s:
        run = subprocess.run(
            [BINARY, "perf", "-m", "mlp", "-u", s.http, "--collect-metrics", f"--metrics-url={s.metrics}/metrics",
             "--concurrency-range=4", "--measurement-interval=2500", "--stability-percentage=999", "-f",
             tmp_path / "out.csv", "--verbose-csv"],
            capture_output=True, text=True, timeout=120)
        print(run.stdout)
        assert run.returncode == 0, run.stderr
        assert "Max GPU Memory Usage" in run.stdout
        assert "GPU" in (tmp_path / "out.csv").read_text().splitlines()[0]


def test_tune_measures_the_card(tmp_path):
    sample(tmp_path / "models", "digits", config="")
    run = subprocess.run(
        [BINARY, "tune", f"--model-repository={tmp_path / 'models'}", "-m", "digits", "--search=brute",
         "--concurrency=8", "--max-batch-sizes=16", "--queue-delays=100", "--instance-counts=1",
         "--instance-kinds=cpu,gpu", "--threads=1",
         "--window=500", f"--export-path={tmp_path / 'out'}", f"--report={tmp_path / 'report.html'}", "--",
         f"--onnxruntime-library={LIBRARY}"], capture_output=True, text=True, timeout=240)
    print(run.stdout[-3000:])
    assert run.returncode == 0, run.stderr[-3000:]
    table = (tmp_path / "out/metrics-model-gpu.csv").read_text()
    print(table)
    assert len(table.splitlines()) > 1


def test_inspect_shows_what_the_provider_takes(tmp_path):
    run = subprocess.run([BINARY, "inspect", "--provider=cuda", "--runs=3", ROOT / "models-sample/digits"],
                         env={**os.environ, "NEREID_ONNXRUNTIME_LIBRARY": str(LIBRARY)}, capture_output=True, text=True,
                         timeout=120)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    assert "CUDAExecutionProvider" in run.stdout and "Conv" in run.stdout
