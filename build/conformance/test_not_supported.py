"""What docs/not-supported.md says is refused or ignored, tried on a running server and on the programs."""

import os
import pathlib
import re
import subprocess

import pytest

import models
from harness import BINARY, REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests what this server does not have")

IO = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 %s}\n'
      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }\n')


def identity(more="", of_input=""):
    return 'backend: "identity"\n' + IO % of_input + more


def accelerated(where, name):
    return "optimization { execution_accelerators { %s_execution_accelerator { name: \"%s\" } } }\n" % (where, name)


# Configurations: the text and what the error says. None: the model loads. ONNX: the configuration of an ONNX model.
ONNX = "onnx"
CONFIGS = {
    "tensorrt": ('backend: "tensorrt"\n' + IO % "", "serve the ONNX model that the engine was built from"),
    "tensorrt_plan": ('platform: "tensorrt_plan"\n' + IO % "", "serve the ONNX model that the engine was built from"),
    "dali": ('backend: "dali"\n' + IO % "", "pip install nvidia-dali"),
    "vllm": ('backend: "vllm"\n' + IO % "", "--backend-directory"),
    "tensorrtllm": ('backend: "tensorrtllm"\n' + IO % "", "--backend-directory"),
    "caffe2": ('platform: "caffe2_netdef"\n' + IO % "", "nereid convert"),
    "stateful": ('backend: "stateful"\n' + IO % "", "unable to find backend library for backend 'stateful'"),
    "armnn": ('backend: "armnn_tflite"\n' + IO % "", "unable to find backend library for backend 'armnn_tflite'"),
    "profile": (identity('instance_group { kind: KIND_CPU profile: "1" }'), "profile, which only TensorRT has"),
    "shape_tensor": (identity(of_input="is_shape_tensor: true "), "a shape tensor, which only TensorRT has"),
    "non_linear": (identity(of_input="is_non_linear_format_io: true "), "a non-linear format, which only TensorRT has"),
    "nvdla": (identity("instance_group { kind: KIND_CPU secondary_devices { kind: KIND_NVDLA device_id: 0 } }"), None),
    "priority": (identity("optimization { priority: PRIORITY_MAX }"), None),
    "cuda": (identity("optimization { cuda { graphs: true busy_wait_events: true output_copy_stream: true } }"), None),
    "eager": (identity("optimization { eager_batching: true gather_kernel_buffer_threshold: 5 }"), None),
    "coreml": (ONNX + accelerated("cpu", "coreml"), "unknown Execution Accelerator 'coreml'"),
    "directml": (ONNX + accelerated("gpu", "dml"), None),  # its instances are on the CPU
}


def write(repo):
    for name, (config, _) in CONFIGS.items():
        if config.startswith(ONNX):
            models.write_identity(repo, name)
            (repo / name / "config.pbtxt").open("a").write(config.removeprefix(ONNX))
        else:
            models.write(repo / name / "config.pbtxt", config)
            models.write(repo / name / "1/model.onnx", "x")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo, work = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("work")
    write(repo)
    write_python(repo)
    with Server(repo, work, "--model-control-mode=explicit", "--enable-peer-access=true") as s:
        yield s


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_that_are_refused_or_ignored(server, name):
    said = CONFIGS[name][1]
    answer = server.post(f"/v2/repository/models/{name}/load")
    if said is None:
        assert answer.status == 200 and server.state(name) == "READY", answer
    else:
        assert answer.status == 400 and said in answer.error, answer


def test_what_is_not_offered(server):
    for path in "/v1/chat/completions", "/v1/completions", "/v1/embeddings":
        assert server.post(path, {"model": "priority", "messages": []}).status == 404
    assert server.get("/v1/models/stats").status == 404
    assert "the option --enable-peer-access has no effect in this server" in server.log()


PYTHON = """
import os
import numpy as np
import c_python_backend_utils
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        prefer = pb.PreferredMemory(pb.TRITONSERVER_MEMORY_GPU, 0)
        said = [str(os.getpid()), str(c_python_backend_utils.shared_memory.free_memory() > 0)]
        for r in requests:
            said.append(str(pb.get_input_tensor_by_name(r, "INPUT0").is_cpu()))
            inner = pb.InferenceRequest(model_name="plain", requested_output_names=["OUTPUT0"], preferred_memory=prefer,
                                        inputs=[pb.Tensor("INPUT0", np.ones(1, np.float32))]).exec()
            said.append(str(inner.has_error() or pb.get_output_tensor_by_name(inner, "OUTPUT0").is_cpu()))
        out = pb.Tensor("OUTPUT0", np.array([" ".join(said)], dtype=object))
        return [pb.InferenceResponse([out]) for _ in requests]
"""


def write_python(repo):
    """A model that uses what has no effect here. The stub program in its folder would fail."""
    models.write(repo / "plain/config.pbtxt", identity())
    models.write(repo / "plain/1/x", "x")
    models.write(repo / "python/config.pbtxt", 'backend: "python"\n' + IO.replace(
        'OUTPUT0" data_type: TYPE_FP32', 'OUTPUT0" data_type: TYPE_STRING') % "" +
        'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n')
    models.write(repo / "python/1/model.py", PYTHON)
    stub = repo / "python/triton_python_backend_stub"
    models.write(stub, "#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)


def test_what_a_python_model_finds(server):
    """Tensors are on the CPU, the pool of shared memory says how much is free, and no stub program is started. The
    process of the model ends with it."""
    for name in "plain", "python":
        assert server.post(f"/v2/repository/models/{name}/load").status == 200
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    answer = server.post("/v2/models/python/infer", body)
    assert answer.status == 200, answer
    pid, *rest = answer.json["outputs"][0]["data"][0].split()
    assert rest == ["True", "True", "True"]
    assert os.path.exists(f"/proc/{pid}")
    assert server.post("/v2/repository/models/python/unload").status == 200
    until(lambda: not os.path.exists(f"/proc/{pid}"), 60, f"process {pid} still runs", server.log)


def stops(*args):
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


PERF = {
    "--periodic-concurrency-range=1:2:1": "use --concurrency-range",
    "--request-period=3": "it belongs to --periodic-concurrency-range",
    "--session-concurrency=2": "OpenAI's API",
    "--shared-memory=system": "system is not supported yet",
    "--shared-memory=cuda": "cuda is not supported yet",
    "--service-kind=openai": "OpenAI's API is another protocol",
    "--service-kind=triton_c_api": "measure a server",
    "--service-kind=tfserving": "TensorFlow Serving has another protocol",
    "--service-kind=torchserve": "TorchServe has another protocol",
    "--service-kind=dynamic_grpc": "measures servers that speak KServe v2",
    "--trace-level=TIMESTAMPS": "--trace-config",
    "--trace-rate=1": "--trace-config",
    "--trace-count=1": "--trace-config",
    "--log-frequency=1": "--trace-config",
    "--enable-mpi": "start one nereid perf for each model",
}


@pytest.mark.parametrize("option", PERF)
def test_options_of_perf_analyzer_that_are_refused(option):
    code, said = stops("perf", "-m", "m", option)
    assert code == 3 and PERF[option] in said, (code, said)


@pytest.mark.parametrize("option", ["--triton-launch-mode=docker", "--model-type=LLM",
                                    "--run-config-search-mode=optuna"])
def test_options_of_model_analyzer_that_are_not_there(option):
    code, said = stops("tune", "-m", "m", option)
    assert code != 0 and "unknown option" in said, (code, said)


def test_sizes_on_the_page_are_those_of_the_program():
    """The page says how large the program is."""
    (megabytes,) = re.findall(r"one program of (\d+) MB", (ROOT / "docs/not-supported.md").read_text())
    size = pathlib.Path(BINARY).stat().st_size / 1e6
    assert abs(size - int(megabytes)) < 5, size
