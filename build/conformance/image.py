"""The container images, started as Triton's is: by crun from the OCI layout, with a read-only root and no capabilities.

make test-image runs this as root, in a network and a mount namespace of its own. IMAGE and IMAGE_PYTORCH name the
layouts."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import stat
import struct
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import ROOT, until, unpacked_image

LIMIT = 120  # seconds, on a loaded machine


@pytest.fixture(scope="module")
def machine():
    """Prepares the namespaces."""
    assert os.geteuid() == 0, "crun and the loopback device of the namespace need root; run make test-image as root"
    with socket.socket() as s:  # the loopback device of a new network namespace is down
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))
    # crun refuses machines that mix both kinds of cgroups, although the containers use none.
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)


@pytest.fixture(scope="module")
def image(machine, tmp_path_factory):
    return unpacked_image(os.environ["IMAGE"], "amd64", tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def pytorch(machine, tmp_path_factory):
    return unpacked_image(os.environ["IMAGE_PYTORCH"], "amd64", tmp_path_factory.mktemp("pytorch"))


def mount(kind, destination, source, *options):
    return {"type": kind, "destination": destination, "source": source, "options": list(options)}


@contextlib.contextmanager
def container(image, command=None, models=ROOT / "models-sample"):
    """Starts a container with a repository at /models, and stops it as an engine does: with SIGTERM."""
    bundle, config = image
    uid, gid = (int(n) for n in config["User"].split(":"))
    nothing = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {"user": {"uid": uid, "gid": gid}, "cwd": config["WorkingDir"], "env": config["Env"],
                    "args": command or config["Cmd"], "capabilities": nothing, "noNewPrivileges": True},
        "mounts": [
            mount("proc", "/proc", "proc"), mount("tmpfs", "/dev", "tmpfs", "nosuid", "mode=755"),
            mount("tmpfs", "/dev/shm", "shm", "mode=1777"), mount("tmpfs", "/tmp", "tmpfs", "mode=1777"),
            mount("tmpfs", "/var/lib/nereid", "tmpfs", f"uid={uid}", "mode=700"),
            mount("bind", "/models", str(models), "rbind", "ro"),
        ],
        "linux": {"namespaces": [{"type": t} for t in ("pid", "mount", "ipc", "uts")]},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
    name = f"nereid-{os.getpid()}"
    with open(bundle / "log", "w") as log:
        process = subprocess.Popen(["crun", "--cgroup-manager=disabled", "run", "--bundle", bundle, name], stdout=log,
                                   stderr=log, start_new_session=True)
    try:
        client = httpclient.InferenceServerClient("127.0.0.1:8000")

        def ready():
            assert process.poll() is None, (bundle / "log").read_text()
            with contextlib.suppress(OSError):
                return client.is_server_ready()

        until(ready, LIMIT, "the container is not ready", (bundle / "log").read_text)
        yield client
        subprocess.run(["crun", "kill", name, "TERM"], check=True)
        assert process.wait(LIMIT) == 0
    finally:
        if process.poll() is None:
            subprocess.run(["crun", "kill", name, "KILL"], check=False)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT)


def add_sub(module, client):
    values = np.arange(16, dtype=np.float32).reshape(1, 16)
    both = [module.InferInput(n, [1, 16], "FP32") for n in ("INPUT0", "INPUT1")]
    for i in both:
        i.set_data_from_numpy(values)
    assert (client.infer("add_sub", both).as_numpy("OUTPUT0") == 2 * values).all()


@pytest.mark.parametrize("command", [None, ["tritonserver", "--model-store", "/models"],
                                     ["/opt/tritonserver/bin/tritonserver", "--model-repository=/models"]])
def test_the_published_commands_serve(image, command):
    with container(image, command) as client:
        models = {m["name"]: m for m in client.get_model_repository_index()}
        samples = {p.parent.name for p in (ROOT / "models-sample").glob("*/config.pbtxt")}
        assert samples and all(models[name].get("state") == "READY" for name in samples)  # also those in Python
        add_sub(httpclient, client)
        with grpcclient.InferenceServerClient("127.0.0.1:8001") as other:
            add_sub(grpcclient, other)
        with socket.create_connection(("127.0.0.1", 8002), LIMIT) as metrics:
            metrics.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            page = b"".join(iter(lambda: metrics.recv(1 << 16), b""))
        assert b'nv_inference_request_success{model="add_sub",version="1"} 2' in page


def test_nobody_is_root_and_the_licences_are_there(image):
    bundle, config = image
    assert config["User"] == "1000:1000" and not config.get("Entrypoint")
    root = bundle / "rootfs"
    assert (root / "opt/tritonserver/bin/nereid").resolve() == root / "opt/tritonserver/bin/tritonserver"
    assert list((root / "usr/share/doc/nereid").glob("*")) and not list((root / "etc/apt").glob("sources.list*"))
    with_set_user = [p for p in (root / "opt").rglob("*") if p.is_file() and p.stat().st_mode & 0o6000]
    assert not with_set_user


DOUBLE = """
import torch

class Double(torch.nn.Module):
    def forward(self, x):
        return 2 * x

torch.jit.script(Double()).save("model.pt")
"""
CONFIG = """
backend: "pytorch"
max_batch_size: 4
input { name: "INPUT__0" data_type: TYPE_FP32 dims: 3 }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: 3 }
"""


def test_the_image_with_pytorch_serves_torchscript(pytorch, tmp_path):
    model = tmp_path / "models/double"  # tmp_path is closed to the user of the container
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    bundle, _ = pytorch
    (bundle / "rootfs/dev").mkdir(exist_ok=True)
    os.mknod(bundle / "rootfs/dev/urandom", 0o666 | stat.S_IFCHR, os.makedev(1, 9))  # PyTorch opens it
    (bundle / "rootfs/double.py").write_text(DOUBLE.replace("model.pt", "/model.pt"))  # PyTorch reads it
    made = ["/usr/sbin/chroot", bundle / "rootfs", "python3", "/double.py"]
    subprocess.run(made, check=True, env={"PATH": "/usr/bin:/bin"})
    (model / "1/model.pt").write_bytes((bundle / "rootfs/model.pt").read_bytes())
    with container(pytorch, models=model.parent) as client:
        values = np.array([[1, 2, 3]], np.float32)
        tensor = httpclient.InferInput("INPUT__0", [1, 3], "FP32")
        tensor.set_data_from_numpy(values)
        assert (client.infer("double", [tensor]).as_numpy("OUTPUT__0") == 2 * values).all()
