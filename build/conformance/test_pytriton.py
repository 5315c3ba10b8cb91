"""PyTriton's clients, as its wheel has them, against this server. The wheel is the one of the reference (build/bench/reference.sh)."""

import json
import subprocess

import pytest

from harness import REFERENCE, ROOT

PYTHON = ROOT / ".cache/bench/venv/bin/python"
pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="the models are written for our server"),
    pytest.mark.skipif(not PYTHON.exists(), reason="PyTriton is not installed; make bench sets it up"),
]

SCRIPT = """
import asyncio, json, sys
import numpy as np
from pytriton.client import AsyncioModelClient, DecoupledModelClient, FuturesModelClient, ModelClient

http, grpc = sys.argv[1:]
a = np.arange(16, dtype=np.int32)
rows = np.stack([a, a + 100])
out = {}

def plain(r):
    return {k: v.tolist() for k, v in r.items()}

for url in (http, grpc):
    kind = url.split(":")[0]
    with ModelClient(url, "sums", init_timeout_s=30) as c:
        out[kind + " version"] = c.model_config.model_name
        out[kind + " sample"] = plain(c.infer_sample(a, a))
        out[kind + " named"] = plain(c.infer_sample(INPUT0=a, INPUT1=a, parameters={"mine": 1}, headers={"test": "1"}))
        out[kind + " batch"] = plain(c.infer_batch(rows, rows))
    with FuturesModelClient(url, "sums", max_workers=2) as c:
        futures = [c.infer_sample(a, a) for _ in range(4)]
        out[kind + " futures"] = [plain(f.result(30)) for f in futures]

    async def run():
        async with AsyncioModelClient(url, "sums") as c:
            return [plain(r) for r in await asyncio.gather(*(c.infer_sample(a, a) for _ in range(3)))]

    out[kind + " asyncio"] = asyncio.run(run())
    try:
        with ModelClient(url, "absent", init_timeout_s=2) as c:
            c.infer_sample(a)
    except Exception as e:
        out[kind + " absent"] = type(e).__name__
with DecoupledModelClient(grpc, "repeat") as c:
    parts = c.infer_sample(np.array([4, 5], np.int32), np.zeros(2, np.uint32), np.zeros(1, np.uint32))
    out["decoupled"] = [plain(p) for p in parts]
print("\\n" + json.dumps(out))
"""


def test_F048_model_clients(server):
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", SCRIPT, f"http://{server.http}", f"grpc://{server.grpc}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    got = json.loads(done.stdout.strip().splitlines()[-1])
    a = list(range(16))
    one = {"OUTPUT0": [2 * i for i in a], "OUTPUT1": [0] * 16}
    for kind in ("http", "grpc"):
        assert got[kind + " version"] == "sums"
        assert got[kind + " sample"] == got[kind + " named"] == one
        assert got[kind + " batch"] == {"OUTPUT0": [one["OUTPUT0"], [2 * i + 200 for i in a]], "OUTPUT1": [[0] * 16] * 2}
        assert got[kind + " futures"] == [one] * 4 and got[kind + " asyncio"] == [one] * 3
        assert got[kind + " absent"] in ("PyTritonClientTimeoutError", "PyTritonClientModelUnavailableError")
    assert got["decoupled"] == [{"OUT": [4], "IDX": [0]}, {"OUT": [5], "IDX": [1]}]
