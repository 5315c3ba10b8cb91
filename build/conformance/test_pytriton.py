"""The clients of PyTriton's wheel against this server. make setup-pytriton unpacks the wheel's client part."""

import json
import os
import subprocess
import sys

import pytest

from harness import REFERENCE, ROOT

CLIENT = ROOT / ".cache/pytriton"
pytestmark = pytest.mark.skipif(REFERENCE, reason="the models are written for our server")

# Each kind of client runs in a separate process. FuturesModelClient of PyTriton 0.7.0 has one worker for gRPC here: it
# gives a second worker the URL without its scheme (from_existing_client), which then speaks HTTP to the gRPC port.
SCRIPT = """
import asyncio, json, sys
import numpy as np
from pytriton.client import AsyncioModelClient, DecoupledModelClient, FuturesModelClient, ModelClient

kind, url = sys.argv[1:]
a = np.arange(16, dtype=np.int32)
rows = np.stack([a, a + 100])
out = {}

def plain(r):
    return {k: v.tolist() for k, v in r.items()}

if kind == "plain":
    with ModelClient(url, "sums", init_timeout_s=30) as c:
        out["model"] = c.model_config.model_name
        out["sample"] = plain(c.infer_sample(a, a))
        out["named"] = plain(c.infer_sample(INPUT0=a, INPUT1=a, parameters={"mine": 1}, headers={"test": "1"}))
        out["batch"] = plain(c.infer_batch(rows, rows))
    try:
        with ModelClient(url, "absent", init_timeout_s=2) as c:
            c.infer_sample(a)
    except Exception as e:
        out["absent"] = type(e).__name__
elif kind == "futures":
    with FuturesModelClient(url, "sums", max_workers=1 if url.startswith("grpc") else 2) as c:
        out["samples"] = [plain(f.result(30)) for f in [c.infer_sample(a, a) for _ in range(4)]]
elif kind == "asyncio":
    async def run():
        async with AsyncioModelClient(url, "sums") as c:
            return [plain(r) for r in await asyncio.gather(*(c.infer_sample(a, a) for _ in range(3)))]

    out["samples"] = asyncio.run(run())
elif kind == "decoupled":
    with DecoupledModelClient(url, "repeat") as c:
        parts = c.infer_sample(np.array([4, 5], np.int32), np.zeros(2, np.uint32), np.zeros(1, np.uint32))
        out["samples"] = [plain(p) for p in parts]
print("\\n" + json.dumps(out))
"""
A = list(range(16))
ONE = {"OUTPUT0": [2 * i for i in A], "OUTPUT1": [0] * 16}


def ask(kind, url):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, kind, url], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": str(CLIENT)})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("kind", ["plain", "futures", "asyncio"])
def test_F048_model_client(server, protocol, kind):
    got = ask(kind, f"{protocol}://{getattr(server, protocol)}")
    if kind != "plain":
        assert got["samples"] == [ONE] * len(got["samples"]) and len(got["samples"]) >= 3
        return
    assert got["model"] == "sums" and got["sample"] == got["named"] == ONE
    assert got["batch"] == {"OUTPUT0": [ONE["OUTPUT0"], [2 * i + 200 for i in A]], "OUTPUT1": [[0] * 16] * 2}
    assert got["absent"] in ("PyTritonClientTimeoutError", "PyTritonClientModelUnavailableError")


def test_F048_decoupled_model_client(server):
    assert ask("decoupled", f"grpc://{server.grpc}")["samples"] == [{"OUT": [4], "IDX": [0]}, {"OUT": [5], "IDX": [1]}]
