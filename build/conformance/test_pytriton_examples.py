"""PyTriton's documented examples that need no GPU, on nereid.triton. The functions are written anew.

    example of PyTriton                         what tests it here
    identity_python                             test_bound.py: identity
    add_sub_python, quick start                 test_bound.py: add_sub, and the program in docs/embed.md
    add_sub_python_with_optional                test_bound.py: optional
    multi_instance_linear_pytorch               test_bound.py: both, two functions at once
    multiple_models_python                      test_bound.py: several models of one server
    online_learning_mnist                       here: train and predict share a variable, there a network of PyTorch
    simple_python_remote_mode, remote_triton.md here: remote
    add_sub_vertex_ai                           here: the endpoint
    add_sub_notebook                            here: the cells of a notebook
    use_parameters_and_headers, custom_params   here: scaled
    decorators.md, binding_models.md            test_bound.py
    binding_configuration.md                    test_bound.py: batcher; here: the warmup
    clients.md                                  test_pytriton.py: the clients of PyTriton's wheel
    perf_analyzer                               test_perf_analyzer.py, on another model

test_package_frameworks.py has those that need PyTorch or TensorFlow. Those with CuPy, DALI, NeMo, FasterTransformer,
TensorRT-LLM and vLLM need GPUs, and huggingface_bert_jax and huggingface_opt_multinode_jax need JAX: they are not
tried. distributed_tracing.md needs traces of functions, which are missing.
"""

import json
import os
import subprocess
import sys

import pytest

from harness import BINARY, REFERENCE, ROOT, free_port
from test_wheel import python  # noqa: F401: a fixture

pytestmark = pytest.mark.skipif(REFERENCE, reason="the tests are of our package")

SERVER = """
import json, sys
import numpy as np
from nereid.decorators import batch
from nereid.triton import (ModelConfig, ModelWarmup, Tensor, Triton, TritonConfig, TritonSecurityConfig, WarmupInput)

F, http = np.float32, int(sys.argv[1])
seen, state = [], {"sum": 0.0}

def tensors(*names):
    return [Tensor(name=n, dtype=F, shape=(-1,)) for n in names]

def scaled(requests):
    return [{"y": r["x"] / float(r.parameters["header_divisor"]) * float(r.parameters["factor"])} for r in requests]

@batch
def train(x):
    state["sum"] += float(x.sum())
    return {"y": np.full((len(x), 1), state["sum"], F)}

@batch
def predict(x):
    return {"y": x + state["sum"]}

@batch
def warm(x):
    seen.append([list(x.shape), float(np.abs(x).sum())])
    return {"y": x}

config = TritonConfig(http_port=http, http_address="127.0.0.1", allow_grpc=False, allow_metrics=False,
                      http_header_forward_pattern="header.*")
with Triton(config=config, security_config=TritonSecurityConfig(access_token="word")) as triton:
    for f in (scaled, train, predict):
        triton.bind(f.__name__, f, tensors("x"), tensors("y"), config=ModelConfig(max_batch_size=8))
    zeros = ModelWarmup("zeros", 2, {"x": WarmupInput(F, (3,), zero_data=True)}, 1)
    triton.bind("warm", warm, tensors("x"), tensors("y"), config=ModelConfig(max_batch_size=8, model_warmup=[zeros]))
    print(json.dumps(seen), flush=True)
    sys.stdin.read()
"""

REMOTE = """
import sys
import numpy as np
from nereid.decorators import batch
from nereid.triton import RemoteTriton, Tensor

@batch
def product(x, y):
    return {"z": x * y}

url, token = sys.argv[1:]
x, y, z = (Tensor(name=n, dtype=np.float32, shape=(-1,)) for n in "xyz")
with RemoteTriton(url, access_token=token) as triton:
    triton.bind("product", product, [x, y], [z])
    print(triton.is_alive(), flush=True)
    sys.stdin.read()
print(triton.is_connected())
"""

ASK = """
import json, sys
import numpy as np
from pytriton.client import ModelClient

url, out, two = sys.argv[1], {}, np.array([[1, 2], [3, 4]], np.float32)

def ask(model, *args, **named):
    with ModelClient(url, model) as c:
        return {k: v.tolist() for k, v in c.infer_batch(*args, **named).items()}

out["scaled"] = ask("scaled", two, parameters={"factor": 3}, headers={"header_divisor": "2"})
out["train"] = [ask("train", two), ask("train", two)]
out["predict"] = ask("predict", two)
out["product"] = ask("product", two, two)
print()
print(json.dumps(out))
"""


VERTEX_AI = """
import sys
import numpy as np
from nereid.decorators import batch
from nereid.triton import Tensor, Triton, TritonConfig

@batch
def add_sub(a, b):
    return {"sum": a + b, "difference": a - b}

config = TritonConfig(http_address="127.0.0.1", allow_http=False, allow_grpc=False, allow_metrics=False,
                      allow_vertex_ai=True, vertex_ai_port=int(sys.argv[1]), **dict(o.split("=") for o in sys.argv[2:]))
with Triton(config=config) as triton:
    given, made = ([Tensor(name=n, dtype=np.float32, shape=(1,)) for n in names] for names in
                   (("a", "b"), ("sum", "difference")))
    triton.bind("AddSub", add_sub, given, made)
    print("bound", flush=True)
    sys.stdin.read()
"""


def start(python, script, *args, **environ):  # noqa: F811
    return subprocess.Popen([python, "-c", script, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **environ})


@pytest.fixture(scope="module")
def said(python):  # noqa: F811
    http, out = free_port(), {}
    url = "127.0.0.1:%d" % http
    programs = [start(python, SERVER, str(http))]
    try:
        out["warm"] = line(programs[0])
        programs.append(start(python, REMOTE, url, "word"))
        assert line(programs[1]) == "True\n"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", ASK, "http://" + url], capture_output=True,
                              text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(ROOT / ".cache/pytriton")})
        assert done.returncode == 0, done.stderr[-3000:]
        out.update(json.loads(done.stdout.splitlines()[-1]))
        out["remote's end"] = programs[1].communicate(timeout=120)
        body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        out["product after"] = post("http://%s/v2/models/product/infer" % url, body)
        denied = start(python, REMOTE, url, "guess")
        out["denied"] = denied.communicate(timeout=120)[1]
        out["end"] = programs[0].communicate(timeout=120)[1]
        assert programs[0].returncode == 0, out["end"]
    finally:
        for program in programs:
            program.kill()
    return out


def line(program):
    found = program.stdout.readline()
    assert found, program.stderr.read()[-6000:]
    return found


def post(url, body):
    """Returns the status and the body of the answer."""
    done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", url, "-H", "Content-Type: application/json", "-d",
                           json.dumps(body)], capture_output=True, text=True, timeout=30)
    text, _, code = done.stdout.rpartition("\n")
    return int(code), json.loads(text or "null")


def test_examples_parameters_and_headers_reach_a_function(said):
    assert said["scaled"] == {"y": [[1.5, 3], [4.5, 6]]}


def test_examples_functions_share_the_programs_variables(said):
    assert said["train"] == [{"y": [[10], [10]]}, {"y": [[20], [20]]}]
    assert said["predict"] == {"y": [[21, 22], [23, 24]]}


def test_examples_a_warmup_precedes_the_requests(said):
    assert json.loads(said["warm"]) == [[[2, 3], 0]]


def test_examples_a_remote_process_binds_a_function(said):
    assert said["product"] == {"z": [[1, 4], [9, 16]]}
    assert said["remote's end"][0] == "False\n"
    code, answer = said["product after"]
    assert code == 404 and "product" in answer["error"], "the model is unloaded at the end"


def test_examples_a_remote_process_needs_the_token(said):
    assert "403" in said["denied"] or "401" in said["denied"], said["denied"]


CELLS = """
import numpy as np
from nereid.triton import ModelConfig, Tensor, Triton, TritonConfig
from nereid.decorators import batch
from pytriton.client import ModelClient

def bind():
    F = np.float32
    triton.bind("AddSub", add_sub, [Tensor(dtype=F, shape=(-1,)), Tensor(dtype=F, shape=(-1,))],
                [Tensor(name="add", dtype=F, shape=(-1,)), Tensor(name="sub", dtype=F, shape=(-1,))],
                config=ModelConfig(max_batch_size=128))

def ask():
    with ModelClient("http://127.0.0.1:%d" % http, "AddSub") as client:
        answer = client.infer_batch(np.full((2, 1), 3, np.float32), np.ones((2, 1), np.float32))
    print({name: array.tolist() for name, array in answer.items()})
# cell
@batch
def add_sub(**inputs):
    a, b = inputs.values()
    return {"add": a + b, "sub": a - b}
# cell
triton = Triton(config=TritonConfig(http_port=http, http_address="127.0.0.1", allow_grpc=False, allow_metrics=False))
# cell
bind()
# cell
triton.run()
# cell
ask()
# cell
print(triton.stop())
# cell
@batch
def add_sub(**inputs):
    a, b = inputs.values()
    return {"add": (a + b) * 2, "sub": (a - b) * 3}
# cell
bind()
# cell
triton.run()
# cell
ask()
# cell
print(triton.stop(), triton.stop())
"""


def notebook(cells):
    package = {"NEREID_PROGRAM": str(BINARY), "NEREID_LIBRARY": str(ROOT / "build/bin/libtritonserver.so"),
               "PYTHONPATH": "%s:%s" % (ROOT / "app/library/python", ROOT / ".cache/pytriton")}
    script = ("import json, sys\nspace = {'http': int(sys.argv[1])}\n"
              "for cell in json.loads(sys.argv[2]): exec(compile(cell, '<cell>', 'exec'), space)\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, str(free_port()),
                           json.dumps(cells.split("# cell\n"))], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **package})
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def test_examples_a_program_may_end_without_a_stop():
    """Its socket and its folder are removed in the right order."""
    done = notebook(CELLS.split("ask()\n# cell\nprint")[0] + "print(triton._folder)")
    assert not os.path.exists(done.stdout.strip()) and "Traceback" not in done.stderr, done.stderr


def test_examples_the_cells_of_a_notebook_bind_a_function_again():
    """A notebook runs its cells one after the other, in one process. The client is in this process too."""
    assert notebook(CELLS).stdout.splitlines() == ["{'add': [[4.0], [4.0]], 'sub': [[2.0], [2.0]]}", "True",
                                        "{'add': [[8.0], [8.0]], 'sub': [[6.0], [6.0]]}", "True False"]


@pytest.mark.parametrize("options", [[], ["vertex_ai_default_model=AddSub"]])
def test_examples_vertex_ai_asks_a_function(python, options):  # noqa: F811
    port = free_port()
    program = start(python, VERTEX_AI, str(port), *options, AIP_PREDICT_ROUTE="/predict", AIP_HEALTH_ROUTE="/health")
    try:
        assert line(program) == "bound\n"
        body = {"inputs": [{"name": n, "shape": [1, 1], "datatype": "FP32", "data": [v]}
                           for n, v in (("a", 5), ("b", 3))]}
        code, answer = post("http://127.0.0.1:%d/predict" % port, body)
        assert code == 200, answer
        assert {o["name"]: o["data"] for o in answer["outputs"]} == {"sum": [8], "difference": [2]}
    finally:
        program.communicate(timeout=120)
