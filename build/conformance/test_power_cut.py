"""A loss of power: what the server had written, but not synced to the disk, is lost.

All is on a disk of its own, in an image. A copy of the image, taken while the server is stopped, is what a disk has
after a loss of power: what is only in the memory of the system is not in it."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

import models
from harness import BINARY, REFERENCE, Server
from limits import MIB
from test_imports import Console, hidden

pytestmark = [pytest.mark.skipif(REFERENCE, reason="the reference has no GUI"),
              pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a disk")]
OPTIONS = ["--model-control-mode=explicit", "--load-model=*"]


@contextlib.contextmanager
def mounted(image, folder):
    folder.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, timeout=60).returncode:
        pytest.skip("files cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=60)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image"
    with open(path, "wb") as f:
        f.truncate(128 * MIB)
    subprocess.run(["mkfs.ext4", "-q", path], check=True, timeout=60)
    return path


def cut(server, image):
    """Copies the disk. The system may write to it meanwhile, then the copy is made again."""
    copy = image.with_name("copy")
    os.killpg(server.process.pid, signal.SIGSTOP)
    try:
        changed = None
        while changed != image.stat().st_mtime_ns:
            changed = image.stat().st_mtime_ns
            shutil.copyfile(image, copy)
    finally:
        os.killpg(server.process.pid, signal.SIGCONT)
    return copy


@contextlib.contextmanager
def after(copy, tmp_path, token=None):
    """A server that starts on the copy of the disk."""
    with mounted(copy, tmp_path / "later") as disk, Server(disk / "models", disk, *OPTIONS, token=token) as s:
        assert hidden(disk / "models") == []
        yield s


def version(server, token=None):
    """Which of the versions of plus_version answers."""
    tensor = httpclient.InferInput("INPUT0", [1, 16], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 16), np.float32))
    headers = {"Authorization": token} if token else None
    return httpclient.InferenceServerClient(server.http).infer("m", [tensor], headers=headers).as_numpy("OUTPUT0")[0, 0]


def imported(gui, file):
    staged = gui.stage({"m/1/model.onnx": file})
    return lambda: gui.commit(staged, replace=True)


def test_what_was_acknowledged_is_there_after_a_loss_of_power_B24(image, tmp_path):
    models.write_plus_version(tmp_path / "made", "m", versions=(1, 2, 3))
    files = {n: (tmp_path / f"made/m/{n}/model.onnx").read_bytes() for n in (1, 2, 3)}
    with mounted(image, tmp_path / "disk") as disk:
        models.write_plus_version(disk / "models", "m")
        subprocess.run(["sync", "-f", disk], check=True, timeout=60)
        with Server(disk / "models", disk, *OPTIONS) as s:
            gui = Console(s)
            assert version(s) == 1
            commit = imported(gui, files[2])
            assert commit()["state"] == "loaded"
            with after(cut(s, image), tmp_path) as later:
                assert version(later) == 2

            saved = (disk / "models/m/config.pbtxt").read_text() + "# saved\n"
            base = gui.ok("GET", "/api/models/m")["revision"]
            gui.ok("PUT", "/api/models/m/config", {"text": saved, "baseRevision": base})
            with after(cut(s, image), tmp_path) as later:
                assert version(later) == 2
                assert (tmp_path / "later/models/m/config.pbtxt").read_text() == saved
                assert len(Console(later).ok("GET", "/api/models/m/revisions")["revisions"]) >= 2

            commit = imported(gui, files[3])
            committing = threading.Thread(target=commit)
            committing.start()
            cuts = 0
            while committing.is_alive() and cuts < 4:
                with after(cut(s, image), tmp_path) as later:
                    assert version(later) in (2, 3)
                cuts += 1
            committing.join()
            assert cuts > 0

            create = [BINARY, "token", "create", "--name=client", f"--data-dir={disk / 'data'}"]
            token = subprocess.run(create, check=True, text=True, capture_output=True, timeout=60).stdout.strip()
            with after(cut(s, image), tmp_path, token) as later:
                with pytest.raises(InferenceServerException):
                    version(later)
                assert version(later, token) == 3
