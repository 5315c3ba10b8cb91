"""Python functions as models: nereid.triton in a clean environment, asked by PyTriton's own clients.

The functions are those that PyTriton's documentation describes, written anew."""

import json
import os
import subprocess
import sys
import threading

import pytest

from harness import REFERENCE, ROOT, free_port
from test_wheel import python, run  # noqa: F401: python is a fixture

pytestmark = pytest.mark.skipif(REFERENCE, reason="the tests are of our package")

CLIENT = ROOT / ".cache/pytriton"

SERVER = """
import json, os, sys, threading
import numpy as np
from nereid.decorators import (ConstantPadder, batch, fill_optionals, first_value, group_by_keys, group_by_values,
                               pad_batch, sample, triton_context)
from nereid.triton import DynamicBatcher, ModelConfig, Request, Tensor, Triton, TritonConfig

F = np.float32
calls = []

@batch
def add_sub(**inputs):
    a, b = inputs.values()
    return {"add": a + b, "sub": a - b}

@fill_optionals(t=np.array([2], F))
@group_by_keys
@batch
@first_value("w")
def optional(a, t, w=None):
    assert w is None or np.isscalar(w)
    return [a * (1 if w is None else w) + t]

def identity(requests):
    return [{"OUTPUT_1": r["INPUT_1"], "OUTPUT_2": r["INPUT_2"]} for r in requests]

@sample
def about(text):
    return (np.char.upper(np.char.decode(text.astype(bytes))), np.array([text.size]))

@batch
@group_by_values("k", pad_fn=ConstantPadder(-1))
def grouped(k, x):
    calls.append(len(k))
    return {"y": np.repeat(x, int(k[0, 0]), 1)}

@batch
def stream(n):
    for i in range(3):
        yield {"i": n * 10 + i}

def failing(requests):
    raise RuntimeError("no answer today")

def without_file(requests):
    if calls.count("file") == 0:
        calls.append("file")
        open("/nonexistent")
    calls.remove("file")
    return [{"y": r["x"]} for r in requests]

@batch
def wrong(x):
    return {"y": x.astype(np.float64)}

class Padded:
    @batch
    @triton_context
    @pad_batch
    def infer(self, x, triton_context):
        assert triton_context.model_configs[self.infer] is triton_context.model_config
        return {"y": np.full_like(x, len(x)), "name": np.full(x.shape, triton_context.model_config.model_name, object)}

@group_by_keys
@batch
def by_keys(**inputs):
    seen.append("".join(sorted(inputs)))
    return {"sum": sum(inputs.values()), "rows": np.full((len(inputs["a"]), 1), len(inputs["a"]))}

seen = []  # as in Triton, a batch of the server has requests with the same inputs: only a direct call mixes them
mixed = by_keys([Request({name: np.full((1 + n % 2, 1), n) for name in names}, {}, None)
                 for n, names in enumerate(["ab", "a", "ba", "ac", "a"])])
mixed = [seen, [[answer["sum"].tolist(), answer["rows"][0, 0].item()] for answer in mixed]]

barrier = threading.Barrier(2, timeout=30)

def both(requests):
    barrier.wait()
    return [{"y": r["x"] + r.parameters.get("more", 0)} for r in requests]

x, y = [Tensor(name="x", dtype=F, shape=(-1,))], [Tensor(name="y", dtype=F, shape=(-1,))]
http, grpc = map(int, sys.argv[1:])
triton = Triton(config=TritonConfig(http_port=http, grpc_port=grpc, allow_metrics=False, http_address="127.0.0.1",
                                    grpc_address="127.0.0.1"))
triton.bind("add_sub", add_sub, [Tensor(dtype=F, shape=(-1,)), Tensor(dtype=F, shape=(-1,))],
            [Tensor(name="add", dtype=F, shape=(-1,)), Tensor(name="sub", dtype=F, shape=(-1,))], strict=True)
with triton:
    bind = triton.bind
    bind("optional", optional, [Tensor(name=n, dtype=F, shape=(1,), optional=n != "a") for n in "atw"], y)
    bind("identity", identity, [Tensor(dtype=np.float64, shape=(-1,)), Tensor(dtype=object, shape=(1,))],
         [Tensor(dtype=np.float64, shape=(-1,)), Tensor(dtype=bytes, shape=(1,))],
         config=ModelConfig(max_batch_size=16))
    bind("about", about, [Tensor(name="text", dtype=bytes, shape=(-1,))],
         [Tensor(name="upper", dtype=bytes, shape=(-1,)), Tensor(name="size", dtype=np.int64, shape=(1,))],
         config=ModelConfig(batching=False))
    number = [Tensor(name=n, dtype=np.int32, shape=(1,)) for n in "kni"]
    bind("grouped", grouped, [number[0], *x], y, config=ModelConfig(max_batch_size=8))
    bind("stream", stream, number[1:2], number[2:], config=ModelConfig(decoupled=True))
    bind("failing", failing, x, y)
    bind("without_file", without_file, x, y)
    bind("wrong", wrong, x, y, strict=True)
    bind("padded", Padded().infer, x, y + [Tensor(name="name", dtype=bytes, shape=(-1,))], model_version=3,
         config=ModelConfig(max_batch_size=8, batcher=DynamicBatcher(preferred_batch_size=[4])))
    bind("both", [both, both], x, y, config=ModelConfig(batching=False))
    bad = []
    for make in (lambda: bind("a b", add_sub, x, y), lambda: bind("both", add_sub, x, y),
                 lambda: bind("odd", add_sub, [Tensor((1,), complex)], y)):
        try:
            make()
        except Exception as e:
            bad.append(type(e).__name__)
    print("ready", flush=True)
    sys.stdin.read()
    alive = triton.is_alive()
    folder = triton._folder
again = triton.stop()
print(json.dumps({"mixed": mixed, "calls": calls, "bad": bad, "alive": alive, "again": again, "left": os.path.exists(folder),
                  "connected": triton.is_connected()}))
"""

ASK = """
import json, sys, threading
import numpy as np
from pytriton.client import DecoupledModelClient, ModelClient

F = np.float32
http, grpc = sys.argv[1:]
out = {}

def plain(r):
    return {k: v.tolist() for k, v in r.items()}

def ask(model, *args, url=http, kind="infer_batch", **named):
    with ModelClient(url, model) as c:
        try:
            return plain(getattr(c, kind)(*args, **named))
        except Exception as e:
            return type(e).__name__ + ": " + str(e)

two = np.array([[1, 2], [3, 4]], F)
for name, url in (("http", http), ("grpc", "grpc://" + grpc)):
    out[name] = ask("add_sub", two, two, url=url)
one = np.ones((2, 1), F)
out["optional"] = [ask("optional", a=one), ask("optional", a=one, t=one), ask("optional", a=one, w=one * 3),
                   ask("optional", a=one, w=np.array([[1], [2]], F))]
binary = np.array([[b"\\xff\\x00"], [b"two"]], object)
out["identity"] = {k: [str(v) for row in r for v in row] for k, r in
                   ask("identity", np.array([[0.5], [1.5]]), binary).items()}
out["about"] = {k: str(v) for k, v in ask("about", np.array([b"ab", b"c"], object), kind="infer_sample").items()}
out["grouped"] = ask("grouped", np.array([[2], [1], [2]], np.int32), np.array([[5], [6], [7]], F))
with DecoupledModelClient("grpc://" + grpc, "stream") as c:
    out["stream"] = [plain(r) for r in c.infer_batch(np.array([[1], [2]], np.int32))]
out["failing"] = ask("failing", one)
out["without_file"] = [ask("without_file", one), ask("without_file", one)]
out["wrong"] = ask("wrong", one)
out["padded"] = {k: str(v) for k, v in ask("padded", np.ones((3, 1), F)).items()}
both = {}  # FuturesModelClient may send one request after the other
threads = [threading.Thread(target=lambda n: both.update({n: ask("both", one[0], kind="infer_sample",
                                                                 parameters={"more": n})}), args=(n,)) for n in (0, 1)]
[t.start() for t in threads]
[t.join() for t in threads]
out["both"] = [both[0], both[1]]
print()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def asked(python):  # noqa: F811
    """What the clients got, and what the server said at its end."""
    ports = [str(free_port()), str(free_port())]
    log = python.parent / "log"
    with open(log, "w") as errors:
        server = subprocess.Popen([python, "-c", SERVER, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=errors, text=True)
    killer = threading.Timer(120, server.kill)  # a server that hangs must not hang the tests
    killer.start()
    try:
        assert server.stdout.readline() == "ready\n", log.read_text()[-6000:]
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", ASK, *("127.0.0.1:" + p for p in ports)],
                              env={**os.environ, "PYTHONPATH": str(CLIENT)}, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr[-3000:] + log.read_text()[-3000:]
        end = server.communicate(timeout=60)[0]
        assert server.returncode == 0, log.read_text()[-6000:]
    finally:
        killer.cancel()
        server.kill()
        server.wait()
    return json.loads(done.stdout.strip().splitlines()[-1]), json.loads(end.strip().splitlines()[-1])


def test_bound_functions_answer_pytritons_clients(asked):
    assert asked[0]["http"] == asked[0]["grpc"] == {"add": [[2, 4], [6, 8]], "sub": [[0, 0], [0, 0]]}
    assert asked[0]["identity"] == {"OUTPUT_1": ["0.5", "1.5"], "OUTPUT_2": [r"b'\xff\x00'", "b'two'"]}


def test_bound_decorators_change_how_a_function_is_called(asked):
    said, end = asked
    assert said["optional"][:3] == [{"y": [[3], [3]]}, {"y": [[2], [2]]}, {"y": [[5], [5]]}]
    assert "the values of w differ" in said["optional"][3]
    assert said["about"] == {"upper": "[b'AB', b'C']", "size": "[2]"}
    assert said["grouped"] == {"y": [[5, 5], [6, -1], [7, 7]]} and end["calls"] == [1, 2]
    assert said["padded"] == {"y": "[[4.0], [4.0], [4.0]]", "name": str([[b"padded"]] * 3)}


def test_bound_group_by_keys_calls_the_function_for_each_set_of_inputs(asked):
    """The answers are in the order of the requests. Those with equal inputs share their rows."""
    calls, answers = asked[1]["mixed"]
    assert calls == ["ab", "a", "ac"]
    assert answers == [[[[0]], 2], [[[1], [1]], 3], [[[4]], 2], [[[6], [6]], 2], [[[4]], 3]]


def test_bound_generators_are_decoupled_models(asked):
    assert asked[0]["stream"] == [{"i": [[10 + i], [20 + i]]} for i in range(3)]


def test_bound_exceptions_and_wrong_outputs_are_errors_of_the_request(asked):
    assert "no answer today" in asked[0]["failing"]
    failed, then = asked[0]["without_file"]  # an error of the system is no loss of the connection
    assert "/nonexistent" in failed and then == {"y": [[1], [1]]}
    assert "the output y has the type float64" in asked[0]["wrong"]
    assert asked[1]["bad"] == ["PyTritonValidationError"] * 3


def test_bound_several_functions_of_a_model_run_at_once(asked):
    assert asked[0]["both"] == [{"y": [1]}, {"y": [2]}]


def test_bound_the_end_leaves_nothing(asked):
    assert asked[1]["alive"] and not asked[1]["again"] and not asked[1]["left"] and not asked[1]["connected"]
