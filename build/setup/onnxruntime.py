"""Downloads libonnxruntime and writes it, compressed, to the folder from which the program embeds it.

usage: onnxruntime.py WORKDIR OUTDIR [MACHINE]

MACHINE is x86_64 or aarch64. Without it, the library is for this machine.

The library comes from the PyPI wheel `onnxruntime`. Its version and hashes are pinned below; other files are refused.
Writes libonnxruntime.so.zst and libonnxruntime.version to OUTDIR. Needs the package zstandard.
"""

import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

import zstandard

VERSION = "1.31.1"
# machine: (platform tag of the wheel, sha256 of the wheel)
WHEELS = {
    "x86_64": ("manylinux_2_28_x86_64", "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f"),
    "aarch64": ("manylinux_2_28_aarch64", "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3"),
}


def download(work: pathlib.Path, tag: str, digest: str) -> pathlib.Path:
    """Returns the path of the verified wheel. Downloads it if necessary."""
    wheel = work / f"onnxruntime-{VERSION}-cp311-cp311-{tag}.whl"
    if not (wheel.exists() and sha256(wheel) == digest):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
            + ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"]
            + ["--platform", tag, "--dest", str(work), f"onnxruntime=={VERSION}"],
            check=True,
        )
    found = sha256(wheel)
    if found != digest:
        wheel.unlink()
        sys.exit(f"{wheel.name}: sha256 is {found}, want {digest}; refusing it")
    return wheel


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    work, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    machine = sys.argv[3] if len(sys.argv) > 3 else platform.machine()
    if machine not in WHEELS:
        sys.exit(f"no pinned onnxruntime wheel for {machine}; known: {', '.join(WHEELS)}")
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    wheel = download(work, *WHEELS[machine])
    with zipfile.ZipFile(wheel) as z:
        names = [n for n in z.namelist() if re.fullmatch(r"onnxruntime/capi/libonnxruntime\.so(\.[0-9.]+)?", n)]
        if len(names) != 1:
            sys.exit(f"{wheel.name}: want one libonnxruntime.so inside, found {names}")
        library = z.read(names[0])
    packed = zstandard.ZstdCompressor(level=19, threads=-1, write_checksum=True).compress(library)
    write(out / "libonnxruntime.so.zst", packed)
    write(out / "libonnxruntime.version", f"{VERSION}\n".encode())
    print(f"libonnxruntime {VERSION}: {len(library) / 1e6:.1f} MB, embedded as {len(packed) / 1e6:.1f} MB")


def write(path: pathlib.Path, data: bytes) -> None:
    """Writes to a temporary name and renames it, so an interrupted run never leaves an incomplete file."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


if __name__ == "__main__":
    main()
