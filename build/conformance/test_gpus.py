"""Models on simulated GPUs (gpus.py): the placement of instances, their arguments, and their memory."""

import json
import re

import numpy as np
import pytest
import tritonclient.http as th

from gpus import REAL
from harness import REFERENCE, ROOT, Server, until

pytestmark = [
    pytest.mark.skipif(REFERENCE or REAL, reason="the models use the simulated GPUs"),
    pytest.mark.skipif(not (ROOT / ".cache/cuda/env").exists(),
                       reason="cuda.h is missing, so the driver cannot be compiled: make setup-cuda shows the reason"),
]

MIB = 1 << 20

PYTHON = """
import json, os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.said = [args["model_instance_kind"], args["model_instance_device_id"], os.environ["CUDA_DEVICE_ORDER"]]
        self.said.append(os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
        took = json.loads(args["model_config"]).get("parameters", {}).get("took")
        if took:  # pretends to have allocated this much
            self.card = os.path.join(os.environ["FAKE_GPU_FOLDER"], "gpu" + self.said[1])
            self.line = "process %d %s\\n" % (os.getpid(), took["string_value"])
            with open(self.card, "a") as f:
                f.write(self.line)

    def finalize(self):
        if hasattr(self, "card"):
            with open(self.card) as f:
                text = f.read()
            with open(self.card, "w") as f:
                f.write(text.replace(self.line, ""))

    def execute(self, requests):
        answer = pb_utils.Tensor("OUT", np.array([json.dumps(self.said)], dtype=object))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""


def write(folder, took=None):
    """Writes a Python model with an instance on GPU 1. It returns its arguments, and can take memory there."""
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(PYTHON)
    parameters = "" if took is None else 'parameters { key: "took" value { string_value: "%d" } }\n' % took
    (folder / "config.pbtxt").write_text(
        'backend: "python"\ninput [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]\n'
        'output [ { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] } ]\ninstance_group [ { kind: KIND_GPU gpus: [ 1 ] '
        '} ]\n' + parameters
    )


def ask(client, model):
    i = th.InferInput("IN", [1], "INT32")
    i.set_data_from_numpy(np.zeros(1, np.int32))
    return json.loads(client.infer(model, [i]).as_numpy("OUT")[0])


@pytest.mark.parametrize("options, visible", [([], "unset"), (["--backend-config=python,visible-gpus=instance"], "1")],
                         ids=["all", "own"])
def test_D022_G022_DV71_a_python_model_on_a_gpu(machine, tmp_path, options, visible):
    write(tmp_path / "models" / "m")
    with Server(tmp_path / "models", tmp_path, *options,
                command=machine.command()) as s, th.InferenceServerClient(s.http) as c:
        assert ask(c, "m") == ["GPU", "0" if options else "1", "PCI_BUS_ID", visible]
        metrics = s.request("GET", "/metrics", address=s.metrics).body.decode()
        assert re.search(r'nereid_gpu_info\{[^}]*uuid="GPU-00000000-0000-0000-0000-000000000001"', metrics)


def test_E019_E020_E021_E022_what_the_driver_says_of_a_gpu(machine, tmp_path):
    """The energy begins at 0 with the server. The simulated GPUs always report the same figures."""
    write(tmp_path / "models" / "m")
    card = machine.state / "gpu1"
    card.write_text(f"used {300 * MIB}\n")
    gpu = '{gpu_uuid="GPU-00000000-0000-0000-0000-000000000001"} '
    try:
        with Server(tmp_path / "models", tmp_path, "--metrics-interval-ms=100", command=machine.command()) as s:
            def lines():
                return s.request("GET", "/metrics", address=s.metrics).body.decode().splitlines()

            until(lambda: any(line.startswith("nv_gpu_utilization" + gpu) for line in lines()), 30,
                  "no metrics of GPUs")
            found = {line.split("{")[0]: float(line.split()[1]) for line in lines() if gpu in line}
    finally:
        card.unlink()
    assert found.items() >= {"nv_gpu_memory_used_bytes": 300 * MIB,  # not what the driver reserves
                             "nv_gpu_memory_total_bytes": 1024 * MIB, "nv_gpu_utilization": 0.37,
                             "nv_gpu_power_usage": 58.954, "nv_gpu_power_limit": 300,
                             "nv_energy_consumption": 0}.items()


def states(server):
    answer = server.request("GET", "/api/models", address=server.ui_address)
    return {m["name"]: m for m in answer.json["models"]}


def test_E035_processes_stay_within_the_memory_budget_of_a_gpu(machine, tmp_path):
    """Two models use 600 MiB of GPU memory each, as the driver reports. The budget is enough for one of them."""
    for name in ("a", "b"):
        write(tmp_path / "models" / name, 600 * MIB)
    budget = "--model-memory-budget-gpu=1:700MiB"
    with Server(tmp_path / "models", tmp_path, budget,
                command=machine.command()) as s, th.InferenceServerClient(s.http) as c:
        for name in ("a", "b", "a", "b"):
            assert ask(c, name)[0] == "GPU"
            until(lambda: states(s)[name]["gpuBytes"] == 600 * MIB, 60, "the memory is not reported", s.log)
            now = states(s)
            assert now[name]["gpuSource"] == now[name]["memorySource"] == "process"
            assert [m for m in now if now[m]["resident"]] == [name]
            usage = c.get_inference_statistics(name)["model_stats"][0]["memory_usage"]
            assert [(u["type"], u["id"]) for u in usage] == [("CPU", 0), ("GPU", 1)]
            assert usage[0]["byte_size"] > MIB and usage[1]["byte_size"] == 600 * MIB
