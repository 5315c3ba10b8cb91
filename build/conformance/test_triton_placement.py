"""What a backend library learns about the place of its instances."""

import concurrent.futures
import json
import re

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


def groups(server, name):
    """The instance groups of a model's configuration, as (name, kind, count, GPUs)."""
    return [(g["name"], g["kind"], g["count"], g["gpus"])
            for g in server.get(f"/v2/models/{name}/config").json["instance_group"]]


@pytest.fixture
def placed(tmp_path):
    """A folder with models of the backend that prefers groups: two devices of GPUs, 7 and 1, then the CPU twice."""
    library("placed_test", tmp_path / "backends/placed_test")
    for name, config in {
        "free": "", "named": 'instance_group { name: "own" kind: KIND_CPU }',
        "counted": "instance_group { kind: KIND_CPU count: 1 }", "auto": "instance_group { }",
    }.items():
        model(tmp_path / "models", name, "placed_test", config)
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--disable-auto-complete-config"]], ids=["complete", "strict"])
def test_C060_the_first_preferred_group_that_can_be_met_is_used(placed, options):
    """Preferred groups count in Triton also if configurations are not completed."""
    with Server(placed / "models", placed, f"--backend-directory={placed / 'backends'}", *options) as s:
        assert groups(s, "free") == [("free", "KIND_CPU", 3, [])]
        assert groups(s, "named") == [("own", "KIND_CPU", 3, [])], "it says no count"
        assert groups(s, "counted") == [("counted_0", "KIND_CPU", 1, [])]
        assert groups(s, "auto") == [("auto_0", "KIND_CPU", 3, [])]
        assert all(f"free_{n} is of kind 1 on device 0" in s.log() for n in range(3)) and "free_3" not in s.log()


@pytest.mark.skipif(REAL or not (ROOT / ".cache/cuda/env").exists(), reason="needs cuda.h, for two simulated GPUs")
def test_C060_a_preferred_group_on_gpus_has_those_that_exist(placed):
    (placed / "models/counted/config.pbtxt").open("a").write("instance_group { kind: KIND_GPU gpus: [ 0 ] }")
    with Server(placed / "models", placed, f"--backend-directory={placed / 'backends'}",
                command=Machine(placed).command()) as s:
        assert groups(s, "free") == [("free", "KIND_GPU", 2, [1])]
        assert groups(s, "named") == [("own", "KIND_CPU", 3, [])]
        assert groups(s, "counted") == [("counted_0", "KIND_CPU", 1, []), ("counted_1", "KIND_GPU", 2, [0])]
        assert groups(s, "auto") == [("auto_0", "KIND_GPU", 2, [1])]
        assert all(f"free_{n}_gpu1 is of kind 2 on device 1" in s.log() for n in range(2))


def test_D076_instances_initialize_at_the_same_time(tmp_path):
    """In processes of their own, also if the backend does not say that it can."""
    library("placed_test", tmp_path / "backends/placed_test")
    model(tmp_path / "models", "together", "placed_test", "instance_group { kind: KIND_CPU count: 2 }")
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path / 'backends'}") as s:
        assert s.state("together") == "READY", s.log()


def settings(folder, *options):
    """The settings that the library gets."""
    library("placed_test", folder / "backends/placed_test")
    model(folder / "models", "seen", "placed_test", "max_batch_size: 1 instance_group { kind: KIND_CPU count: 1 }")
    with Server(folder / "models", folder, *options) as s:
        found = re.search(r"the settings are (\{.*?\}\})", s.log().replace("\\", ""))
        assert "memory of kind 1 and device 0 cannot be allocated here" in s.log()
        return json.loads(found[1])["cmdline"]


def test_D002_a_library_gets_the_settings_of_its_backend_and_of_all(tmp_path):
    backends = str(tmp_path / "backends")
    assert settings(
        tmp_path, f"--backend-config=backend-directory={backends}", "--backend-config=shade=grey",
        "--backend-config=placed_test,shade=red", "--backend-config=other,shade=blue", "--backend-config=own=1=2",
        "--backend-config=placed_test,default-max-batch-size=9", "--disable-auto-complete-config",
    ) == {"backend-directory": backends, "shade": "red", "own": "1=2", "default-max-batch-size": "9",
          "auto-complete-config": "false", "min-compute-capability": "6.000000"}


def test_D002_a_library_gets_the_defaults_of_settings(tmp_path):
    backends = str(tmp_path / "backends")
    assert settings(tmp_path, f"--backend-directory={backends}", "--min-supported-compute-capability=7.5") == {
        "backend-directory": backends, "default-max-batch-size": "4", "auto-complete-config": "true",
        "min-compute-capability": "7.500000"}


def test_D076_an_instance_says_whether_it_is_ready(tmp_path):
    library("placed_test", tmp_path / "backends/placed_test")
    model(tmp_path / "models", "seen", "placed_test", "instance_group { kind: KIND_CPU count: 2 }")
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path / 'backends'}") as s:
        tired = tmp_path / "models/seen/tired"
        assert s.get("/v2/models/seen/ready").status == 200
        tired.touch()
        assert s.get("/v2/models/seen/ready").status == 400
        tired.unlink()
        assert s.get("/v2/models/seen/ready").status == 200


def test_D076_an_instance_learns_its_place(tmp_path):
    library("placed_test", tmp_path / "backends/placed_test")
    model(tmp_path / "models", "seen", "placed_test", """instance_group { name: "a" kind: KIND_CPU count: 1 }
        instance_group { name: "b" kind: KIND_MODEL count: 1 host_policy: "near" }
        instance_group { name: "c" kind: KIND_CPU count: 1 passive: true }""")
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path / 'backends'}",
                "--host-policy=near,cpu-cores=0") as s:
        log = s.log().replace("\\", "")
        assert 'a_0 is of kind 1 on device 0, passive 0, policy {"cpu":{}}' in log
        assert 'b_0 is of kind 3 on device 0, passive 0, policy {"near":{"cpu-cores":"0"}}' in log
        assert 'c_0 is of kind 1 on device 0, passive 1, policy {"cpu":{}}' in log


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
