"""Unpacks the client part of PyTriton's wheel into a folder. The rest of the wheel is a Triton and its Python server.

The client needs only packages that build/requirements.txt has: tritonclient, gevent and numpy.
Usage: pytriton.py FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "nvidia-pytriton==0.7.0"
# The package's own __init__ imports the server.
PARTS = ("pytriton/client/", "pytriton/model_config/", "pytriton/constants.py", "pytriton/exceptions.py")


def main():
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                        "--only-binary=:all:", "-d", work, WHEEL], check=True)
        with zipfile.ZipFile(next(pathlib.Path(work).glob("*.whl"))) as z:
            z.extractall(target, [n for n in z.namelist() if n.startswith(PARTS)])
            header = re.search(r"(?m)^TRITON_ACCESS_HEADER = .*$", z.read("pytriton/triton.py").decode())
    (target / "pytriton/__init__.py").touch()
    (target / "pytriton/triton.py").write_text(header[0] + "\n")  # all that the client uses of the server


if __name__ == "__main__":
    main()
