"""A machine without a network: a network namespace that only has loopback."""

import fcntl
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys

import pytest

from harness import REFERENCE, ROOT, Server

UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--"]


def loopback_up():
    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        name, flags = struct.unpack("16sh", fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh", name, flags | IFF_UP))


def inside(work):
    """The checks that run inside the network namespace."""
    loopback_up()
    assert [line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]] == ["lo"]
    with pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    repo = work / "models"
    shutil.copytree(ROOT / "models-sample", repo)
    with Server(repo, work, "--model-control-mode=poll", wait="ready") as s:
        ones = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [1] * 16} for n in ("INPUT0", "INPUT1")]
        # ONNX Runtime
        assert s.post("/v2/models/add_sub/infer", {"inputs": ones}).json["outputs"][0]["data"] == [2] * 16
        image = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 28, 28], "data": [0] * 784}]}
        # a process with Python
        assert len(s.post("/v2/models/digits_py/infer", image).json["outputs"][0]["data"]) == 10
        assert s.request("GET", "/metrics", address=s.metrics).status == 200
        ui = s.ui_address
        page = s.request("GET", "/", address=ui)
        assets = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
        assert page.status == 200 and len(assets) >= 2
        for a in assets:
            assert "//" not in a and s.request("GET", "/" + a.removeprefix("./").lstrip("/"),
                                               address=ui).status == 200, a
        assert all(state == "READY" for state, _ in s.index().values()), s.index()
        assert "unreachable" not in s.log() and "no such host" not in s.log(), s.log()
    print("served")


@pytest.mark.skipif(REFERENCE, reason="tests this program")
def test_G025_serves_without_a_network(tmp_path):
    try:
        allowed = subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this machine does not allow network namespaces")
    code = f"import pathlib, test_air_gapped; test_air_gapped.inside(pathlib.Path({str(tmp_path)!r}))"
    done = subprocess.run([*UNSHARE, sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent,
                          capture_output=True, text=True, timeout=180)
    assert done.returncode == 0 and "served" in done.stdout, done.stdout + done.stderr


REPORTS = """
import numpy as np, onnxruntime, triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("y", np.ones(1, np.float32))]) for _ in requests]
"""


@pytest.mark.skipif(REFERENCE, reason="tests this program")
def test_H6_onnxruntime_does_not_report_its_use(tmp_path, monkeypatch):
    """ONNX Runtime's own telemetry begins with a file for the machine's ID and a database of what to send. It makes
    them when it is loaded, before it can be turned off by its interface."""
    home = tmp_path / "home"
    (home / "tmp").mkdir(parents=True)
    for name in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    repo = tmp_path / "models"
    shutil.copytree(ROOT / "models-sample/add_sub", repo / "add_sub")
    shutil.copytree(ROOT / "models-sample/add_sub", repo / "isolated")
    config = (repo / "isolated/config.pbtxt").read_text().replace('"add_sub"', '"isolated"')
    (repo / "isolated/config.pbtxt").write_text(
        config + 'parameters { key: "isolation" value { string_value: "process" } }\n')
    (repo / "reports/1").mkdir(parents=True)
    (repo / "reports/1/model.py").write_text(REPORTS)
    (repo / "reports/config.pbtxt").write_text('backend: "python"\noutput [ { name: "y" data_type: TYPE_FP32 dims: 1 } ]\n'
                                               'input [ { name: "x" data_type: TYPE_FP32 dims: 1 } ]\n')
    with Server(repo, tmp_path, wait="ready") as s:
        ones = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [1] * 16} for n in ("INPUT0", "INPUT1")]
        for model in ("add_sub", "isolated"):
            assert s.post(f"/v2/models/{model}/infer", {"inputs": ones}).status == 200
        one = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]
        assert s.post("/v2/models/reports/infer", {"inputs": one}).status == 200
    found = [str(p.relative_to(home)) for p in home.rglob("*") if "Microsoft" in p.name or p.suffix == ".ses"
             or p.name == ".ses"]
    assert found == []
