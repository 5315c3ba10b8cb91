"""A machine with two GPUs, as far as NVIDIA's libraries tell: those of engine/device/cuda/testdata in place of the driver's.

With NEREID_TEST_GPU=1, which make test-gpu sets, it is the machine itself, with NVIDIA's driver and NVIDIA's cuda-python."""

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
    """The fake driver, compiled into a folder, and the state of its cards."""

    def __init__(self, work):
        self.second = 1  # the number of another card than 0, if there is one
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
        """The command that serves on this machine."""
        if not REAL:
            environ = {"LD_LIBRARY_PATH": self.libraries, "FAKE_GPU_FOLDER": self.state, **environ}
        return ["env", *(f"{k}={v}" for k, v in environ.items()), BINARY, "serve"]

    def client(self):
        """tritonclient.utils.cuda_shared_memory on this machine, in this process; once in a process."""
        if not REAL:
            os.environ["FAKE_GPU_FOLDER"] = str(self.state)  # which the library reads by getenv
            os.environ["FAKE_CUDA_LIBRARY"] = str(self.libraries / "libcuda.so.1")
            sys.path.insert(0, str(ROOT / "build/conformance/fakecuda"))
        import tritonclient.utils.cuda_shared_memory as module

        return module

    def fail(self, call, code):
        """Makes a call of the driver return an error, in every process; see heal."""
        if REAL:
            pytest.skip("NVIDIA's driver fails for nobody")
        (self.state / "fault").write_text(f"{call} {code}\n")

    def heal(self):
        (self.state / "fault").unlink(missing_ok=True)

    def holds(self, process, what, n):
        """Asserts that a process holds n handles (open) or contexts (context). NVIDIA's driver does not tell."""
        if not REAL:
            found = list(self.state.glob(f"{what}.{process.pid}.*"))
            assert len(found) == n, found
