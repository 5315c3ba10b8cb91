"""Makes the Python wheel: the package nereid with libtritonserver.so and the program, and the MLflow plugin.

Usage: wheel.py VERSION OUT. The files are those of make build and make library. SOURCE_DATE_EPOCH is their time.
The platform tag is manylinux with the newest glibc that the files need. It is refused if they need other libraries.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "app/library/python"
BINARIES = [ROOT / "build/bin/libtritonserver.so", ROOT / "build/bin/nereid"]
# What PEP 600 lets a wheel take from the system, as far as it is ours.
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2",
           "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

METADATA = """Metadata-Version: 2.1
Name: nereid
Version: %s
Summary: Serve models inside a Python program, and Python functions as models
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/plain

A server for machine learning models with the interfaces of Triton Inference Server. This package runs it inside a
Python program, or serves functions of the program as models. The command nereid runs it as a server.
"""

# MLflow loads nereid_mlflow, which is not in the package nereid: importing that loads the library.
ENTRY_POINTS = b"""[console_scripts]
nereid = nereid.__main__:main

[mlflow.deployments]
nereid = nereid_mlflow
"""


def platform_tag():
    versions = []
    for file in BINARIES:
        if not file.exists():
            sys.exit("%s is missing: run make wheel" % file)
        dynamic = subprocess.run(["readelf", "-dVW", file], capture_output=True, text=True, check=True).stdout
        other = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) - ALLOWED
        if other:
            sys.exit("%s needs libraries that manylinux does not have: %s" % (file, ", ".join(sorted(other))))
        versions += [tuple(map(int, v)) for v in re.findall(r"GLIBC_(\d+)\.(\d+)", dynamic)]
    return "manylinux_%d_%d_%s" % (*max(versions), platform.machine())


def python_version(version):
    """Returns a version of git describe as one of PEP 440."""
    number, _, rest = version.removeprefix("v").partition("-")
    if not re.fullmatch(r"\d+(\.\d+)*", number):
        number, rest = "0", version
    rest = re.sub(r"[^a-zA-Z0-9]+", ".", rest).strip(".")
    return number + ("+" + rest if rest else "")


def main():
    version, out = python_version(sys.argv[1]), pathlib.Path(sys.argv[2])
    tag = "py3-none-" + platform_tag()
    info = "nereid-%s.dist-info/" % version
    files = {p.relative_to(SOURCES).as_posix(): p for p in sorted(SOURCES.rglob("*.py"))}
    files.update({"nereid/lib/" + p.name: p for p in BINARIES})
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents["nereid/LICENSES.txt"] = subprocess.run([BINARIES[1], "licenses"], capture_output=True, check=True).stdout
    contents[info + "METADATA"] = (METADATA % version).encode()
    contents[info + "WHEEL"] = ("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode()
    contents[info + "entry_points.txt"] = ENTRY_POINTS
    record = ""
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    contents[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]  # zip begins in 1980
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("nereid-*.whl"):
        old.unlink()
    wheel = out / ("nereid-%s-%s.whl" % (version, tag))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as z:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100755 if name == "nereid/lib/nereid" else 0o100644) << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(wheel)


if __name__ == "__main__":
    main()
