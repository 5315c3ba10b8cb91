"""What a backend library learns about the place of its instances."""

import pytest

from harness import REFERENCE, Server
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
