"""What an idle server costs: start, memory, context switches and bytes written, of it and of its models' processes.

usage: idle.py PROGRAM REPOSITORY SETTLE SECONDS

Starts the program with a new data folder, waits SETTLE seconds after it is ready, and measures for SECONDS. A wake-up
is counted as a context switch of any thread; one timer of a Go program causes three to five of them.
"""

import glob
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))
from harness import free_port  # noqa: E402


def processes(pid):
    """The process and all those that it and they started."""
    found = [pid]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        for child in pathlib.Path(path).read_text().split():
            found += processes(int(child))
    return found


def numbers(path, *names):
    lines = (line.split(":") for line in pathlib.Path(path).read_text().splitlines() if ":" in line)
    return sum(int(value.split()[0]) for name, value in lines if name in names)


def spent(pid):
    """Context switches that a thread waited for, those that were forced on it, and bytes written to a disk."""
    threads = glob.glob(f"/proc/{pid}/task/*/status")
    return [sum(numbers(t, kind) for t in threads) for kind in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
            ] + [numbers(f"/proc/{pid}/io", "write_bytes")]


def main():
    program, repository, settle, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        began = time.monotonic()
        server = subprocess.Popen(
            [program, "serve", f"--model-repository={repository}", f"--data-dir={data}", f"--http-port={port}",
             "--grpc-port=0", "--metrics-port=0", "--ui-port=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for state in ("live", "ready"):
                while not answers(f"http://127.0.0.1:{port}/v2/health/{state}"):
                    time.sleep(0.002)
                print(f"{state} after {time.monotonic() - began:.3f} s")
            time.sleep(settle)
            pids = processes(server.pid)
            before, began = {pid: spent(pid) for pid in pids}, time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - began
            all_of = [sum(spent(pid)[i] - before[pid][i] for pid in pids) for i in range(3)]
            for pid in pids:
                memory = f"/proc/{pid}/smaps_rollup"
                print(f"process {pid}: RSS {numbers(memory, 'Rss') >> 10} MiB, "
                      f"of it from no file {numbers(memory, 'Pss_Anon') >> 10} MiB")
            print(f"in {passed:.0f} s: {all_of[0] / passed:.1f} voluntary and {all_of[1] / passed:.1f} other context "
                  f"switches a second, {all_of[2]} bytes written, {all_of[2] / passed * 3600 / 1e3:.0f} kB an hour")
        finally:
            server.terminate()
            server.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
