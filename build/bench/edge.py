"""What `nereid serve --edge` takes on a small box: 2 GiB of memory, and a disk that reads 20 MB a second, as an SD
card.

usage, as root, on a machine with version 1 of control groups: edge.py PROGRAM REPOSITORY

The limits are those of two control groups. Files of the program and the repository are first dropped from the page
cache. Writes are not slowed: version 1 of control groups cannot.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]
from harness import ROOT, Server  # noqa: E402
from idle import numbers, processes  # noqa: E402

MEMORY, RATE = 2 << 30, 20_000_000
GROUPS = [pathlib.Path("/sys/fs/cgroup") / kind / f"nereid-{os.getpid()}" for kind in ("memory", "blkio")]


def disk(path):
    """The number of the disk that has a file, of the whole disk and not of a partition."""
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    folder = pathlib.Path("/sys/dev/block", name).resolve()
    return (folder.parent / "dev").read_text().strip() if (folder / "partition").exists() else name


def main():
    program, repository = map(pathlib.Path, sys.argv[1:])
    for group in GROUPS:
        group.mkdir()
    memory, blkio = GROUPS
    (memory / "memory.limit_in_bytes").write_text(str(MEMORY))
    (blkio / "blkio.throttle.read_bps_device").write_text(f"{disk(ROOT)} {RATE}")
    enter = "".join(f"echo $$ >{group}/cgroup.procs; " for group in GROUPS) + 'exec "$@"'
    with tempfile.TemporaryDirectory(dir=ROOT / "build/bin") as work:
        shutil.copytree(repository, f"{work}/models")
        shutil.copy(program, f"{work}/nereid")
        subprocess.run(["sync", "-f", work], check=True)
        for path in pathlib.Path(work).rglob("*"):
            if path.is_file():
                with open(path, "rb") as f:
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.monotonic()
        command = ["sh", "-c", enter, "enter", f"{work}/nereid", "serve"]
        try:
            with Server(f"{work}/models", work, "--edge", command=command, wait=None, limit=300) as server:
                for state in ("live", "ready"):
                    while server.get(f"/v2/health/{state}").status != 200:
                        time.sleep(0.01)
                    print(f"{state} after {time.monotonic() - began:.1f} s")
                pids = processes(server.process.pid)
                print("resident, MiB:", [numbers(f"/proc/{pid}/status", "VmRSS") >> 10 for pid in pids])
                saved = sorted(pathlib.Path(work, "models").glob("*/requests/*.json"))
                answered = [ask(server, path) for path in saved]
                print(f"{sum(answered)} of {len(answered)} saved requests are answered")
                pids = processes(server.process.pid)
                print("resident, MiB:", [numbers(f"/proc/{pid}/status", "VmRSS") >> 10 for pid in pids])
                peak = int((memory / "memory.max_usage_in_bytes").read_text()) >> 20
                print(f"at most {peak} MiB of {MEMORY >> 20} in use, files included; "
                      f"{(memory / 'memory.failcnt').read_text().strip()} times at the limit")
        finally:
            for group in GROUPS:
                group.rmdir()


def ask(server, path):
    """Sends a saved request, and reports whether it is answered."""
    inputs, tail = [], b""
    for saved in json.loads(path.read_text())["inputs"]:
        tensor = {k: saved[k] for k in ("name", "datatype", "shape", "data") if k in saved}
        if "b64" in saved:
            raw = base64.b64decode(saved["b64"])
            tensor["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        inputs.append(tensor)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    answer = server.post(f"/v2/models/{path.parent.parent.name}/infer", head + tail,
                         {"Inference-Header-Content-Length": str(len(head))})
    if answer.status != 200:
        print(path, answer.status, answer.body[:200])
    return answer.status == 200


if __name__ == "__main__":
    main()
