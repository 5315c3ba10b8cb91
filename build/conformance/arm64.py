"""The package for arm64 in an arm64 Debian, and the image for arm64, emulated by qemu: models-sample, ONNX and Python.

make test-arm64 runs this on another machine. ROOT_TAR names the Debian, WINDOW_TAR one with the libraries of the
window, PACKAGES the folder of the packages, IMAGE the layout. The emulator is registered in a user namespace, which
needs Linux 6.7 or newer, so the machine is left as it is. No container engine starts the image: its root is entered by
chroot."""

import base64
import glob
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import ROOT, Server, copy_tree, unpacked_image, until, virtual_screen

LIMIT = 300  # seconds, for an emulated server on a loaded machine
SLOW = f"--backend-config=python,stub-timeout-seconds={LIMIT}"  # the default is too short for an emulated Python
# The conformance cases that fit in ten minutes: ONNX over HTTP and gRPC, Python, the control of the repository,
# metrics.
CASES = ["test_infer_http.py", "test_infer_grpc.py", "test_metrics.py",
         "test_control.py::test_B064_load_and_unload_over_grpc",
         "test_control.py::test_A064_load_and_unload_by_the_real_clients",
         "test_cases.py::test_A049_B013_B014_B064_load_and_unload", "test_samples.py", "test_custom_metrics.py",
         "test_response_senders.py", "test_bls_streams.py"]
# There is no /sys: ONNX Runtime looks there for the processor, and the emulator shows that of the host; it would crash.
ENTER = """set -e
mkdir -p -m 1777 /tmp/.X11-unix
mount -t binfmt_misc none "$1/binfmt" && cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$1/binfmt/register"
for folder in /proc /dev "$1/work" /tmp/.X11-unix; do mkdir -p "$1/root$folder"; mount --rbind "$folder" "$1/root$folder"; done
root="$1/root"; shift; exec chroot "$root" "$@"
"""


def unpack(base, archive, name):
    """Puts a Debian with a package into base/root."""
    subprocess.run(["tar", "-xf", os.environ[archive], "-C", base / "root", "--no-same-owner", "--exclude=./dev/*"],
                   check=True)
    (deb,) = glob.glob(os.environ["PACKAGES"] + f"/{name}_*_arm64.deb")
    subprocess.run(["dpkg-deb", "-x", deb, base / "root"], check=True)


def package(base):
    """Puts the Debian with the package into base/root and returns the program and its variables."""
    unpack(base, "ROOT_TAR", "nereid")
    return ["/usr/bin/nereid", "serve"], ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]


def image(base):
    """Puts the files of the image into base/root and returns the program that its command starts, and its variables."""
    (base / "root").rmdir()
    bundle, config = unpacked_image(os.environ["IMAGE"], "arm64", base / "image")
    (bundle / "rootfs").rename(base / "root")
    return config["Cmd"][:1], config["Env"]


def folders(factory):
    base = factory.mktemp("arm64")
    for name in ("root", "work", "binfmt"):
        (base / name).mkdir()
    return base


def entering(base):
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ENTER, "enter", str(base)]


@pytest.fixture(scope="module", params=[package, image], ids=["package", "image"])
def enter(request, tmp_path_factory):
    """The folder that both sides see under the same name, how a command starts that runs in the Debian, and the
    program."""
    base = folders(tmp_path_factory)
    program, env = request.param(base)
    copy_tree(ROOT / "models-sample", base / "work/models")
    return base / "work", ["env", "-i", *env, *entering(base)], program


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


def test_a_killed_server_starts_again_with_its_history_and_ends_in_order(enter):
    work, command, program = enter
    copy_tree(ROOT / "models-sample/add_sub", work / "killed/models/add_sub")

    def answer(server):
        inputs = [httpclient.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
        for value in inputs:
            value.set_data_from_numpy(np.full((1, 16), 2, np.float32))
        return httpclient.InferenceServerClient(server.http).infer("add_sub", inputs).as_numpy("OUTPUT0")[0, 0]

    with Server(work / "killed/models", work / "killed", SLOW, command=[*command, *program], limit=LIMIT) as server:
        assert answer(server) == 4
        server.kill()
        server.start()
        assert answer(server) == 4
        events = server.request("GET", "/api/history/events?kind=load", address=server.ui_address).json
        assert len(events["events"]) == 2, events
        server.process.terminate()
        assert server.process.wait(LIMIT) == 0


def test_the_manual_is_there(enter):
    work, _, program = enter
    if program[-1] != "serve":
        pytest.skip("an image has no manual")
    page = subprocess.run(["man", "-l", f"{work.parent}/root/usr/share/man/man1/nereid-serve.1.gz"], check=True,
                          text=True,
                          capture_output=True, env={**os.environ, "MANPAGER": "cat"}).stdout
    assert "--model-repository" in page


def test_the_window_opens_a_file(tmp_path_factory):
    base = folders(tmp_path_factory)
    unpack(base, "WINDOW_TAR", "nereid-desktop")
    shutil.copyfile(ROOT / "models-sample/add_sub/1/model.onnx", base / "work/my model.onnx")
    with virtual_screen() as display:
        env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={base}/work", f"DISPLAY={display}",
               "JSC_useJIT=0", "WEBKIT_DISABLE_COMPOSITING_MODE=1"]  # the emulator is slow with both
        with open(base / "window.log", "wb") as log:
            window = subprocess.Popen(["env", "-i", *env, *entering(base), "/usr/bin/nereid-desktop", "--http-port=0",
                                       "--grpc-port=0", "--metrics-port=0", "--ui-port=0",
                                       f"{base}/work/my model.onnx"],
                                      stdout=log, stderr=log)
        try:
            until(lambda: subprocess.run(["xdotool", "search", "--onlyvisible", "--name", "Nereid"],
                                         env={**os.environ, "DISPLAY": display}, stdout=subprocess.DEVNULL
                                         ).returncode == 0, LIMIT, "no window")
            # The page in the window asks for the file.
            until(lambda: list((base / "work/.local/share").glob("**/imports/*/in/my model.onnx")), LIMIT, "no import")
        finally:
            window.terminate()
            window.wait(LIMIT)


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
