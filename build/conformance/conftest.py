"""Servers that the tests share, and the options that choose them."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import models
from gpus import Machine
from harness import REFERENCE, ROOT, Server


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: long cases; NEREID_SOAK=full runs them at full length")
    config.addinivalue_line("markers", "bounds: make soak runs it again and checks its bounds in time")
    config.addinivalue_line("markers", "desktop: needs the desktop build and Xvfb")
    config.addinivalue_line("markers", "frameworks: needs PyTorch, TensorFlow and OpenVINO: make test-frameworks")
    config.addinivalue_line("markers", "convert: needs the converters of nereid convert: make test-convert")
    config.addinivalue_line("markers", "fleet: needs the platforms of docs/examples: make test-fleet")


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    """The folder with the suite's models. Tests must not change it: copy it."""
    return models.write_good(tmp_path_factory.mktemp("good") / "models")


@pytest.fixture(scope="session")
def server(good, tmp_path_factory):
    """A server in the default control mode with the suite's models."""
    with Server(good, tmp_path_factory.mktemp("server"), "--log-verbose=0") as s:
        yield s


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    """A server with a copy of models-sample."""
    if REFERENCE:
        pytest.skip("the reference has no ONNX backend")
    work = tmp_path_factory.mktemp("samples")
    repo = work / "models"
    shutil.copytree(ROOT / "models-sample", repo)
    with Server(repo, work) as s:
        yield s


@pytest.fixture(scope="session")
def broken(tmp_path_factory):
    """A server with good and broken models: it is live but not ready."""
    work = tmp_path_factory.mktemp("broken")
    repo = models.write_broken(work / "models")
    models.write_sums(repo)
    with Server(repo, work, "--exit-on-error=false", wait="live") as s:
        yield s


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """A folder for PYTHONPATH with what the wheel of make wheel installs."""
    (wheel,) = (ROOT / "build/bin/wheel").glob("nereid-*.whl")
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-index",
                    "--no-deps", "--target", folder, wheel], check=True)
    return folder


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    """A machine with two simulated GPUs."""
    return Machine(tmp_path_factory.mktemp("gpus"))


@pytest.fixture
def explicit(good, tmp_path):
    """A server in explicit mode with the good and the broken models. None is loaded."""
    repo = tmp_path / "models"
    shutil.copytree(good, repo)
    models.write_broken(repo)
    with Server(repo, tmp_path, "--model-control-mode=explicit") as s:
        yield s


@pytest.fixture
def sixteen():
    return np.arange(16, dtype=np.int32).reshape(1, 16)
