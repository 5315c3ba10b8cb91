"""Downloads perf_analyzer, Triton's load generator, which is part of old wheels of tritonclient.

usage: perf_analyzer.py DIR

Writes perf_analyzer and libcudart.so.12, which it is linked against, to DIR. Both come from PyPI wheels whose versions
and hashes are pinned below. perf_analyzer also needs libb64.so.0d (Debian: libb64-0d; build/setup/system.sh). The
wheels only exist for x86_64; on other machines the script prints this and does nothing. """

import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import zipfile

# requirement, platform of the wheel, sha256 of the wheel, file in it
FILES = [
    (
        "tritonclient==2.48.0",
        "manylinux1_x86_64",
        "7074885798e8a711fedaf94d6dd77f310973fe2ebf29fb2837db350a43e2d6a5",
        "tritonclient-2.48.0.data/data/bin/perf_analyzer",
    ),
    (
        "nvidia-cuda-runtime-cu12==12.4.127",
        "manylinux2014_x86_64",
        "64403288fa2136ee8e467cdc9c9427e0434110899d07c779f25b5c068934faa5",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
    ),
]


def fetch(work: pathlib.Path, requirement: str, tag: str, digest: str, name: str) -> None:
    target = work / pathlib.PurePosixPath(name).name
    if target.exists():
        return
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        + ["--only-binary", ":all:", "--platform", tag, "--dest", str(work), requirement],
        check=True,
    )
    stem = requirement.replace("-", "_").replace("==", "-")
    wheel = next(work.glob(stem + "*.whl"))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != digest:
        wheel.unlink()
        sys.exit(f"{wheel.name}: sha256 is {found}, want {digest}; refusing it")
    part = target.with_name(target.name + ".part")
    with zipfile.ZipFile(wheel) as z:
        part.write_bytes(z.read(name))
    part.chmod(0o755)
    os.replace(part, target)
    wheel.unlink()


def main() -> None:
    work = pathlib.Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    if platform.machine() != "x86_64":
        print(f"there is no perf_analyzer for {platform.machine()}; its tests are skipped")
        return
    for f in FILES:
        fetch(work, *f)


if __name__ == "__main__":
    main()
