"""What a candidate version costs the version in service: the ratio of its p99 beside a candidate that gets copies, to
that without.

usage: shadow.py [PAIRS]

Two servers have the model mlp of models-sample in two equal versions, of which the first one serves. One server sends
copies of a tenth of the requests to the second version, as the page does when one tries a candidate. The servers get
requests at the same rate in turns, in an order that changes. Prints for each rate the medians of both, and the median
of the ratios of all pairs with its middle half. Copies are dropped while the machine has no time, so the rates leave it
some. NEREID is the path of the program.
"""

import contextlib
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))
from harness import BINARY, ROOT, Server  # noqa: E402


def page(server, method, path, body=None):
    answer = server.request(method, "/api/models/mlp" + path, json.dumps(body), {"X-Nereid": "1"}, server.ui_address)
    assert answer.status < 300, answer
    return answer.json


def load(server, rate, folder):
    """Sends requests at a rate for two seconds, and returns their p99 in microseconds."""
    out = folder / "perf.csv"
    command = [BINARY, "perf", "-u", server.http, "-m", "mlp", f"--request-rate-range={rate}",
               f"--request-count={2 * rate}",
               "--percentile=99", "-f", out]
    subprocess.run(command, check=True, capture_output=True)
    with out.open() as f:
        return float(next(csv.DictReader(f))["p99 latency"])


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="nereid-shadow-") as work, contextlib.ExitStack() as stack:
        servers = []
        for name in ("beside", "alone"):
            model = pathlib.Path(work) / name / "models" / "mlp"
            shutil.copytree(ROOT / "models-sample/mlp", model)
            shutil.copytree(model / "1", model / "2")
            with (model / "config.pbtxt").open("a") as f:
                f.write("version_policy { specific { versions: [ 1 ] } }\n")
            servers.append(stack.enter_context(Server(model.parent, model.parent.parent)))
        page(servers[0], "POST", "/shadow", {"version": "2", "percent": 10})
        for rate in (200, 1000):
            before = page(servers[0], "GET", "/shadow")
            got = [[], []]
            for i in range(pairs):
                for side in (0, 1) if i % 2 else (1, 0):
                    got[side].append(load(servers[side], rate, pathlib.Path(work)))
            after = page(servers[0], "GET", "/shadow")
            low, middle, high = statistics.quantiles([a / b for a, b in zip(*got)], n=4)
            beside, alone = (statistics.median(side) for side in got)
            print(f"{rate} requests/s: p99 {beside:.0f} µs beside the candidate, {alone:.0f} µs alone, ratio of these {beside / alone:.3f}; "
                  f"of pairs {middle:.3f} [{low:.3f}–{high:.3f}], n = {pairs}; "
                  f"{after['compared'] - before['compared']} compared, {after['dropped'] - before['dropped']} dropped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
