"""What a backend library learns about the place of its instances."""

import concurrent.futures

import pytest

from gpus import REAL, Machine
from harness import REFERENCE, ROOT, Server
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


def test_D076_secondary_devices_reach_the_library(tmp_path):
    models, backends = tmp_path / "models", tmp_path / "backends"
    library("placed_test", backends / "placed_test")
    model(models, "placed", "placed_test", """instance_group { kind: KIND_CPU
        secondary_devices { kind: KIND_NVDLA device_id: 2 } secondary_devices { kind: KIND_NVDLA device_id: 5 } }""")
    with Server(models, tmp_path, f"--backend-directory={backends}") as s:
        for n, device in enumerate((2, 5)):
            assert f"device {n} of 2 is KIND_NVDLA {device}" in s.log()
        assert "this backend executes nothing" in infer(s, "placed", [1]).error


@pytest.mark.skipif(REAL or not (ROOT / ".cache/cuda/env").exists(), reason="needs cuda.h, for two simulated GPUs")
def test_C067_device_blocking_executes_once_at_a_time_on_each_gpu(tmp_path):
    models, backends = tmp_path / "models", tmp_path / "backends"
    library("blocks_test", backends / "blocks_test")
    model(models, "blocked", "blocks_test", "instance_group { kind: KIND_GPU gpus: [ 0 ] count: 3 }")
    model(models, "apart", "blocks_test", """instance_group { name: "a_0" kind: KIND_GPU gpus: [ 0 ] }
        instance_group { name: "a_1" kind: KIND_GPU gpus: [ 1 ] }""")
    model(models, "ordered", "blocks_test", """instance_group { kind: KIND_GPU gpus: [ 0 ] count: 2 }
        sequence_batching { }""")
    with Server(models, tmp_path, f"--backend-directory={backends}", command=Machine(tmp_path).command()) as s:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: infer(s, "blocked", [-n]), range(200)))
            assert [a.json.get("error") or a.json["outputs"][0]["data"] for a in answers] == [[-n] for n in range(200)]
            for name in ("apart", "ordered"):  # these execute in parallel, also in Triton
                meet = [pool.submit(infer, s, name, [2], parameters={"sequence_id": k, "sequence_start": True})
                        for k in (1, 2)]
                assert [m.result().status for m in meet] == [200, 200], (name, s.log())
