"""A machine with two simulated GPUs: the libraries in engine/device/cuda/testdata replace those of NVIDIA's driver.

With NEREID_TEST_GPU=1 (set by make test-gpu) the tests use the real machine, NVIDIA's driver and NVIDIA's
cuda-python."""

import os
import pathlib
import subprocess
import sys

import pytest

from harness import BINARY, ROOT

SOURCES = ROOT / "engine/device/cuda/testdata"
HEADER = ROOT / ".cache/cuda/include"


REAL = os.environ.get("NEREID_TEST_GPU") == "1"


class Machine:
    """The fake driver, compiled into a folder, and the state of its GPUs."""

    def __init__(self, work):
        self.second = 1  # the number of a second GPU; 0 if there is none
        if REAL:
            listed = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
            self.second = min(1, listed.count("GPU ") - 1)
            return
        self.libraries, self.state = pathlib.Path(work) / "lib", pathlib.Path(work) / "state"
        self.libraries.mkdir(parents=True)
        self.state.mkdir()
        flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
        for source, library in (("cuda.c", "libcuda.so.1"), ("nvml.c", "libnvidia-ml.so.1")):
            subprocess.run(["cc", *flags, f"-I{HEADER}", "-o", self.libraries / library, SOURCES / source], check=True)

    def command(self, **environ):
        """The command that starts the server on this machine."""
        if not REAL:
            environ = {"LD_LIBRARY_PATH": self.libraries, "FAKE_GPU_FOLDER": self.state, **environ}
        return ["env", *(f"{k}={v}" for k, v in environ.items()), BINARY, "serve", "--model-env=FAKE_*"]

    def client(self):
        """Returns tritonclient.utils.cuda_shared_memory for this machine. It can be called once per process."""
        if not REAL:
            os.environ["FAKE_GPU_FOLDER"] = str(self.state)  # the library reads it with getenv
            os.environ["FAKE_CUDA_LIBRARY"] = str(self.libraries / "libcuda.so.1")
            sys.path.insert(0, str(ROOT / "build/conformance/fakecuda"))
        import tritonclient.utils.cuda_shared_memory as module

        return module

    def fail(self, call, code):
        """Makes a driver call return an error in every process, until heal is called."""
        if REAL:
            pytest.skip("NVIDIA's driver cannot be made to fail")
        (self.state / "fault").write_text(f"{call} {code}\n")

    def heal(self):
        (self.state / "fault").unlink(missing_ok=True)

    def holds(self, process, what, n):
        """Asserts that a process holds n handles (open) or contexts (context). NVIDIA's driver does not report this."""
        if not REAL:
            found = list(self.state.glob(f"{what}.{process.pid}.*"))
            assert len(found) == n, found
