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
        ui = s.ui.removeprefix("http://")
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
