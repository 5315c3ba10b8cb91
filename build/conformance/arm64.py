"""The package for arm64 in an arm64 Debian, and the image for arm64, emulated by qemu: models-sample, ONNX and Python.

make test-arm64 runs this on another machine. ROOT_TAR names the Debian, PACKAGES the folder of the package, IMAGE the
layout. The emulator is registered in a user namespace, which needs Linux 6.7 or newer, so the machine is left as it is.
No container engine starts the image: its root is entered by chroot."""

import base64
import glob
import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import ROOT, Server, copy_tree, unpacked_image

LIMIT = 300  # seconds, for an emulated server on a loaded machine
SLOW = f"--backend-config=python,stub-timeout-seconds={LIMIT}"  # the default is too short for an emulated Python
# The conformance cases that fit in ten minutes: ONNX over HTTP and gRPC, Python, the control of the repository, metrics.
CASES = ["test_infer_http.py", "test_infer_grpc.py", "test_metrics.py",
         "test_control.py::test_B064_load_and_unload_over_grpc",
         "test_control.py::test_A064_load_and_unload_by_the_real_clients",
         "test_cases.py::test_A049_B013_B014_B064_load_and_unload", "test_samples.py", "test_custom_metrics.py",
         "test_response_senders.py", "test_bls_streams.py"]
# There is no /sys: ONNX Runtime looks there for the processor, and the emulator shows that of the host; it would crash.
ENTER = """set -e
mount -t binfmt_misc none "$1/binfmt" && cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$1/binfmt/register"
for folder in /proc /dev "$1/work"; do mkdir -p "$1/root$folder"; mount --rbind "$folder" "$1/root$folder"; done
root="$1/root"; shift; exec chroot "$root" "$@"
"""


def package(base):
    """Puts the Debian with the package into base/root and returns the program and its variables."""
    subprocess.run(["tar", "-xf", os.environ["ROOT_TAR"], "-C", base / "root", "--no-same-owner", "--exclude=./dev/*"],
                   check=True)
    (deb,) = glob.glob(os.environ["PACKAGES"] + "/nereid_*_arm64.deb")
    subprocess.run(["dpkg-deb", "-x", deb, base / "root"], check=True)
    return ["/usr/bin/nereid", "serve"], ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]


def image(base):
    """Puts the files of the image into base/root and returns the program that its command starts, and its variables."""
    (base / "root").rmdir()
    bundle, config = unpacked_image(os.environ["IMAGE"], "arm64", base / "image")
    (bundle / "rootfs").rename(base / "root")
    return config["Cmd"][:1], config["Env"]


@pytest.fixture(scope="module", params=[package, image], ids=["package", "image"])
def enter(request, tmp_path_factory):
    """The folder that both sides see under the same name, how a command starts that runs in the Debian, and the
    program."""
    base = tmp_path_factory.mktemp("arm64")
    for name in ("root", "work", "binfmt"):
        (base / name).mkdir()
    program, env = request.param(base)
    copy_tree(ROOT / "models-sample", base / "work/models")
    user = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ENTER, "enter", str(base)]
    return base / "work", ["env", "-i", *env, *user], program


@pytest.fixture(scope="module")
def server(enter):
    work, command, program = enter
    with Server(work / "models", work, SLOW, command=[*command, *program], limit=LIMIT) as s:
        yield s


def test_the_program_is_for_arm64(enter):
    work, command, program = enter
    path = program[0] if program[0].startswith("/") else "/opt/tritonserver/bin/" + program[0]
    with open(f"{work.parent}/root{path}", "rb") as f:
        assert struct.unpack_from("<H", f.read(20), 18) == (183,)  # EM_AARCH64
    machine = [*command, "/usr/bin/python3", "-c", "import platform; print(platform.machine())"]
    assert subprocess.run(machine, check=True, text=True, capture_output=True).stdout.strip() == "aarch64"


def pictures():
    for path in sorted(pathlib.Path(ROOT / "models-sample/digits/requests").glob("grey_28*.json")):
        saved = json.loads(path.read_text())
        (image,) = saved["inputs"]
        yield saved["label"], np.frombuffer(base64.b64decode(image["b64"]), np.float32).reshape(image["shape"])


@pytest.mark.parametrize("protocol", [httpclient, grpcclient], ids=["http", "grpc"])
def test_all_samples_answer(server, protocol):
    client = protocol.InferenceServerClient(server.http if protocol is httpclient else server.grpc)
    samples = {p.parent.name for p in (ROOT / "models-sample").glob("*/config.pbtxt")}
    assert samples and [name for name in samples if not client.is_model_ready(name)] == []
    labels = (ROOT / "models-sample/digits/labels.txt").read_text().split()
    seen = 0
    for label, image in pictures():
        onnx = protocol.InferInput("image", list(image.shape), "FP32")
        onnx.set_data_from_numpy(image)
        assert labels[client.infer("digits", [onnx]).as_numpy("scores").argmax()] == label
        pixels = np.rint(image.reshape(1, 28, 28) * 255).astype(np.uint8)
        python = protocol.InferInput("image", [1, 28, 28], "UINT8")
        python.set_data_from_numpy(pixels)
        assert client.infer("digits_py", [python]).as_numpy("label").ravel()[0].decode() == label
        seen += 1
    assert seen >= 4


@pytest.mark.timeout(3600)  # ten minutes and less, but on a busy machine
def test_conformance_cases(enter):
    """The tests start this script in place of the program. Their folders are below the one that both sides see."""
    work, command, program = enter
    if program[-1] != "serve":
        pytest.skip("tritonserver listens on all addresses, and the cases expect 127.0.0.1; its program is the same")
    script = work / "nereid"
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*command, *program[:1]])} "$@" {SLOW}\n')
    script.chmod(0o755)
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, "-m", "pytest", "-q", "--durations=5", f"--basetemp={work / 'cases'}",
                    *[here / case for case in CASES]], check=True,
                   env={**os.environ, "NEREID": str(script), "NEREID_START_LIMIT": str(LIMIT)})
