"""The Python package nereid, installed from the wheel of make wheel into a clean environment."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile

import numpy
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import BINARY, REFERENCE, ROOT, free_port
from test_embed import published_numbers, python_model

pytestmark = pytest.mark.skipif(REFERENCE, reason="the tests are of our package")


def wheel():
    """The wheel of make wheel, which is a part of make test."""
    found = list((ROOT / "build/bin/wheel").glob("nereid-*.whl"))
    if not found:
        pytest.skip("no wheel is built: run make wheel")
    assert len(found) == 1, f"several wheels: {found}"
    return found[0]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with nothing but the wheel and numpy, which pip must find: it may not look in an index."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    made = folder / "bin/python"
    site = subprocess.run([made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True,
                          text=True, check=True).stdout.strip()
    for path in numpy.__path__:
        for part in os.scandir(os.path.dirname(path)):
            if part.name == "numpy" or part.name.startswith(("numpy.libs", "numpy-")):
                os.symlink(part.path, os.path.join(site, part.name))
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", made, "install",
                    "--no-index", wheel()], check=True)
    return made


def run(python, script, *arguments, timeout=60, **env):
    """Runs a script and returns the JSON of its last line. Processes of models take the numpy of the environment."""
    path = "%s:%s" % (python.parent, os.environ["PATH"])
    done = subprocess.run([python, "-c", script, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={"PATH": path, "HOME": str(python.parent), **env})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for name in ("builtin_identity", "identity_fp32"):
        shutil.copytree(ROOT / "models-sample" / name, folder / name)
    python_model(folder / "three", """
        for r in requests:
            for n in (1, 2, 3):
                values = pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() + n
                r.get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]))
            r.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""", "model_transaction_policy { decoupled: true }")
    (folder / "texts/1").mkdir(parents=True)
    (folder / "texts/config.pbtxt").write_text("""
        backend: "identity" max_batch_size: 0
        input [ { name: "INPUT0" data_type: TYPE_STRING dims: [ -1 ] },
                { name: "INPUT1" data_type: TYPE_BF16 dims: [ -1, 2 ] } ]
        output [ { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] },
                 { name: "OUTPUT1" data_type: TYPE_BF16 dims: [ -1, 2 ] } ]
    """)
    return folder


# Slow things are started once: the script asks for all, and the tests look at its answers.
SCRIPT = """
import asyncio, gc, json, sys, threading, urllib.request
import numpy as np
import nereid

folder, port = sys.argv[1], int(sys.argv[2])
out = {"file": nereid.__file__}
x = np.arange(16, dtype=np.float32).reshape(1, 16)
with nereid.Server(folder, model_control_mode="explicit", load_model=["builtin_identity", "three"],
                   http_port=port, http_address="127.0.0.1") as server:
    out["models"] = sorted(server.models())
    model = server.models()["builtin_identity"]
    answer = model.infer(inputs={"INPUT0": x})
    y = answer["OUTPUT0"]
    out["same"] = [type(y).__name__, str(y.dtype), y.shape, bool((y == x).all()), list(answer), answer.model_version]
    del answer
    many = [model.infer({"INPUT0": x + i})["OUTPUT0"] for i in range(100)]
    gc.collect()
    out["kept"] = all((a == x + i).all() for i, a in enumerate(many)) and bool((y == x).all())
    out["dlpack"] = bool((np.from_dlpack(y) == x).all())
    fortran = np.asfortranarray(np.arange(32, dtype=np.float32).reshape(2, 16))
    fortran.flags.writeable = False
    out["order"] = bool((model.infer({"INPUT0": fortran})["OUTPUT0"] == fortran).all())
    parameters = {"a": 1, "b": "t", "c": True, "d": 0.5}
    named = model.infer({"INPUT0": x}, request_id="me", parameters=parameters, outputs=["OUTPUT0"])
    out["id"] = named.id
    errors = {}
    for name, ask in {"model": lambda: server.model("absent").infer({}), "input": lambda: model.infer({}),
                      "shape": lambda: model.infer({"INPUT0": x[:, :3]}),
                      "type": lambda: model.infer({"INPUT0": np.zeros(3, complex)}),
                      "parameter": lambda: model.infer({"INPUT0": x}, parameters={"p": []}),
                      "load": lambda: server.load("absent")}.items():
        try:
            ask()
        except nereid.TritonError as e:
            errors[name] = [type(e).__name__, str(e)]
    out["errors"] = errors
    three = server.models()["three"]
    out["stream"] = [r["OUTPUT0"][0, :2].tolist() for r in three.stream({"INPUT0": x})]
    out["first"] = three.infer({"INPUT0": x})["OUTPUT0"][0, 0].item()
    next(three.stream({"INPUT0": x}))  # the rest is dropped

    async def several():
        answers = await asyncio.gather(*(model.async_infer({"INPUT0": x + i}) for i in range(50)))
        assert all((a["OUTPUT0"] == x + i).all() for i, a in enumerate(answers))
        try:
            await model.async_infer({})
        except nereid.InvalidArgumentError as e:
            out["async error"] = str(e)
        return [r["OUTPUT0"][0, 0].item() async for r in three.async_stream({"INPUT0": x})]

    out["async"] = [asyncio.run(several()), asyncio.run(several())]

    def ask(n):
        for i in range(200):
            if (model.infer({"INPUT0": x + n * i})["OUTPUT0"] != x + n * i).any():
                wrong.append(n)

    wrong = []
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    out["threads"] = wrong
    texts = server.load("texts")
    bits = nereid.Tensor(nereid.DataType.BF16, (1, 2), np.array([0x3F80, 0x4000], np.uint16))
    said = texts.infer({"INPUT0": np.array(["one", b"\\xff", "drei"], object), "INPUT1": bits})
    out["texts"] = [said["OUTPUT0"].tolist() == [b"one", b"\\xff", b"drei"], said["OUTPUT1"].tolist()]
    server.unload("texts")
    loaded = server.load("identity_fp32", config={"max_batch_size": 4, "backend": "onnxruntime"})
    out["load"] = [loaded.ready(), loaded.config()["max_batch_size"], "texts" in server.models()]
    url = "http://127.0.0.1:%d/v2/models/builtin_identity" % port
    out["http"] = json.load(urllib.request.urlopen(url))["name"]
    out["statistics"] = model.statistics()["model_stats"][0]["name"]
    out["metrics"] = 'nv_inference_request_success{model="builtin_identity",version="1"}' in server.metrics()
    out["metadata"] = model.metadata()["inputs"][0]["name"]
    out["live"] = [server.live(), server.ready()]
try:
    model.infer({"INPUT0": x})
except nereid.InvalidArgumentError as e:
    out["stopped"] = str(e)
print()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def said(python, models):
    return run(python, SCRIPT, models, free_port())


def test_B087_the_wheel_carries_the_library_and_the_program(python, said):
    assert re.fullmatch(r"nereid-[^-]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel().name)
    names = zipfile.ZipFile(wheel()).namelist()
    assert {"nereid/lib/libtritonserver.so", "nereid/lib/nereid", "nereid/LICENSES.txt"} <= set(names)
    assert said["file"].startswith(str(python.parent.parent)), "the package is that of the environment"
    plugin = "[p.value for p in m.entry_points(group='mlflow.deployments', name='nereid')]"
    assert run(python, f"import importlib.metadata as m, json; print(json.dumps({plugin}))") == ["nereid_mlflow"]
    assert "nereid_mlflow.py" in names
    version = subprocess.run([python.parent / "nereid", "version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("nereid")


def test_B087_infer_gives_arrays_over_the_memory_of_the_response(said):
    assert said["models"] == ["builtin_identity", "three"]
    assert said["same"] == ["ndarray", "float32", [1, 16], True, ["OUTPUT0"], 1]
    assert said["kept"], "an output keeps its memory after its response is dropped"
    assert said["dlpack"] and said["order"] and said["id"] == "me" and said["threads"] == []
    assert said["texts"] == [True, [[1.0, 2.0]]]


def test_B087_errors_are_exceptions_of_their_code(said):
    errors = said["errors"]
    assert errors["model"][0] == "NotFoundError" and "'absent' is not found" in errors["model"][1]
    assert {errors[k][0] for k in ("input", "shape", "type", "parameter")} == {"InvalidArgumentError"}
    assert "complex128" in errors["type"][1] and "p must be" in errors["parameter"][1]
    assert errors["load"] == ["InternalError", errors["load"][1]] and "absent" in errors["load"][1]
    assert said["async error"] == errors["input"][1] and said["stopped"] == "the server has stopped"


def test_B087_streams_and_coroutines(said):
    assert said["stream"] == [[1, 2], [2, 3], [3, 4]] and said["first"] == 1
    assert said["async"] == [[1, 2, 3], [1, 2, 3]]


def test_B087_load_unload_metrics_and_ports(said):
    assert said["load"] == [True, 4, False]
    assert said["http"] == said["statistics"] == "builtin_identity" and said["metadata"] == "INPUT0"
    assert said["metrics"] and said["live"] == [True, True]


TRITON = """
import asyncio, json, queue, sys
import numpy as np
from nereid import tritonserver

out = {}
x = np.arange(16, dtype=np.float32).reshape(1, 16)
options = tritonserver.Options(sys.argv[1], model_control_mode=tritonserver.ModelControlMode.EXPLICIT,
                               startup_models=["builtin_identity", "three"], server_id="inside",
                               log_format=tritonserver.LogFormat.ISO8601, rate_limiter_resources=[
                                   tritonserver.RateLimiterResource("r", 2, -1)],
                               rate_limiter_mode=tritonserver.RateLimitMode.EXEC_COUNT,
                               metrics_configuration={"": {"summary_latencies": "true"}},
                               backend_configuration={"python": {"stub-timeout-seconds": "30"}},
                               cache_config={"local": {"size": 1048576}}, cuda_memory_pool_sizes={0: 1})
server = tritonserver.Server(options)
try:
    server.model("three")
except tritonserver.InvalidArgumentError as e:
    out["not started"] = str(e)
server.start(wait_until_ready=True)
out["models"] = sorted([list(k) + [m.state] for k, m in server.models().items()], key=str)
out["ready"] = sorted(server.models(exclude_not_ready=True))
model = server.models()["builtin_identity"]
responses = list(model.infer(inputs={"INPUT0": x}, request_id="7", parameters={"a": 1}))
first = responses[0]
tensor = first.outputs["OUTPUT0"]
out["one"] = [len(responses), first.final, first.request_id, first.model.name, first.model.version, tensor.shape,
              tensor.data_type.name, tensor.size, tensor.memory_type.name, bool((np.from_dlpack(tensor) == x).all())]
out["three"] = [[r.final, r.outputs["OUTPUT0"].numpy()[0, 0].item() if r.outputs else None]
                for r in server.model("three").infer(inputs={"INPUT0": x})]

async def several():
    return [r.outputs["OUTPUT0"].numpy()[0, 0].item() async for r in model.async_infer(inputs={"INPUT0": x + 4})]

out["async"] = asyncio.run(several())
request = model.create_request(inputs={"INPUT0": x}, response_queue=queue.SimpleQueue())
answers = model.infer(request)
got = request.response_queue.get(timeout=30)
out["queue"] = [got.outputs["OUTPUT0"].shape, next(answers) is got]
try:
    list(model.infer(inputs={"INPUT0": x[:, :3]}))
except tritonserver.TritonError as e:
    out["error"] = [type(e).__name__, "unexpected shape" in str(e)]
out["about"] = [server.metadata()["name"], server.live(), model.ready(), model.batch_properties().name,
                server.model("three").transaction_properties().name, model.config()["name"],
                model.statistics()["model_stats"][0]["name"], model.metadata()["name"]]
server.load("identity_fp32", {"config": json.dumps({"backend": "onnxruntime", "max_batch_size": 2})})
out["loaded"] = server.model("identity_fp32").config()["max_batch_size"]
server.unload("identity_fp32", wait_until_unloaded=True)
server.unregister_model_repository(sys.argv[1])
server.register_model_repository(sys.argv[1], {"identity_fp32": "renamed"})
out["renamed"] = server.load("renamed").ready()
out["metrics"] = "nv_inference_count" in server.metrics(tritonserver.MetricFormat.PROMETHEUS)
texts = tritonserver.Tensor.from_string_array([["a", "b"]])
out["texts"] = [texts.shape, texts.to_string_array().tolist(), texts.to_bytes_array().tolist() == [[b"a", b"b"]]]
server.stop()
print()
print(json.dumps(out))
"""


def test_B087_the_interface_of_tritons_module(python, models):
    said = run(python, TRITON, models)
    assert said["not started"] == "Server not started"
    assert said["models"] == [["builtin_identity", 1, "READY"], ["identity_fp32", -1, None], ["texts", -1, None],
                              ["three", 1, "READY"]]
    assert said["ready"] == [["builtin_identity", 1], ["three", 1]]
    assert said["one"] == [1, True, "7", "builtin_identity", 1, [1, 16], "FP32", 64, "CPU", True]
    assert said["three"] == [[False, 1], [False, 2], [False, 3], [True, None]]
    assert said["async"] == [4] and said["queue"] == [[1, 16], True] and said["error"] == ["InvalidArgumentError", True]
    assert said["about"] == ["inside", True, True, "FIRST_DIM", "DECOUPLED"] + 3 * ["builtin_identity"]
    assert said["loaded"] == 2 and said["renamed"] and said["metrics"]
    assert said["texts"] == [[1, 2], [["a", "b"]], True]


ODD = """
import json, os, signal, sys, threading
import numpy as np
import nereid
from nereid import _core, _tensor

out = {}
x = {"INPUT0": np.arange(16, dtype=np.float32).reshape(1, 16)}

def said(f):
    try:
        return f()
    except nereid.TritonError as e:
        return type(e).__name__

for n in range(2):  # a second server in the process
    server = nereid.Server(sys.argv[1], model_control_mode="explicit", load_model=["identity_fp32"])
    model = server.model("identity_fp32")
    out["server %d" % n] = float(model.infer(x)["OUTPUT0"].sum())
    if n == 0:
        server.stop()
odd = nereid.Tensor(nereid.DataType.FP32, [1, 16], np.arange(32, dtype=np.float32)[::2])
out["not contiguous"] = model.infer({"INPUT0": odd})["OUTPUT0"][0].tolist()
out["zero byte"] = said(lambda: len(model.infer({"INPUT0\\0x": x["INPUT0"]})))
out["numbers"] = [said(lambda: len(model.infer(x, **settings))) for settings in (
    {"parameters": {"a": 1 << 63}}, {"parameters": {"a": -1 << 63}}, {"correlation_id": -1}, {"priority": -1},
    {"timeout": 1 << 64}, {"flags": 1 << 32}, {"parameters": {"a": "b\\0c"}}, {"request_id": "a\\0"})]
out["bytes"] = bytes(_tensor.encode(np.array([bytearray(b"ab"), memoryview(b"c")], object))).hex()
out["name"] = _core._name("once") is _core._name("once")

read, write = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(20)  # if it waits for threads that a fork does not have
    os.write(write, said(lambda: model.infer(x)).encode())
    del server, model
    os._exit(0)  # as multiprocessing ends its processes
out["fork"] = [os.read(read, 100).decode(), os.waitpid(child, 0)[1]]
print(json.dumps(out))
"""


def test_B087_odd_values_and_a_second_server(python, models):
    said = run(python, ODD, models)
    assert said["server 0"] == said["server 1"] == 120
    assert said["not contiguous"] == list(range(0, 32, 2))
    assert said["zero byte"] == "InvalidArgumentError"
    assert said["numbers"] == ["InvalidArgumentError", 1] + 6 * ["InvalidArgumentError"]
    assert said["bytes"] == "02000000" + b"ab".hex() + "01000000" + b"c".hex()
    assert said["name"] is True
    assert said["fork"] == ["InvalidArgumentError", 0]


DLPACK = """
import ctypes, gc, json, sys
import numpy as np
import nereid
from nereid import tritonserver
from nereid.tritonserver import DataType, DLDeviceType, MemoryBuffer, MemoryType, Tensor

class Shared:  # has DLPack alone, as the tensors of a framework that nereid does not know
    def __init__(self, array):
        self.array = array
    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

class OfGPU(Shared):  # says that its memory is a GPU's: the device comes after the address of the data
    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = DLDeviceType.kDLCUDA
        return capsule
    def __dlpack_device__(self):
        return DLDeviceType.kDLCUDA, 0

def said(f, *args):
    try:
        return f(*args)
    except tritonserver.TritonError as e:
        return [type(e).__name__, str(e)]

out, x = {}, np.arange(32, dtype=np.float32).reshape(2, 16)
server = nereid.Server(sys.argv[1], model_control_mode="explicit", load_model=["builtin_identity"])
model = server.model("builtin_identity")
same = lambda value, want: bool((model.infer({"INPUT0": value})["OUTPUT0"] == want).all())
out["same"] = [same(x, x), same(Shared(x), x), same(Shared(x[:, ::-1]), x[:, ::-1]), same(Shared(x[::2]), x[::2])]
out["half"] = said(lambda: model.infer({"INPUT0": Shared(x.astype(np.float16))}))[0]
out["complex"] = said(lambda: model.infer({"INPUT0": Shared(x.astype(complex))}))[0]
out["gpu"] = said(lambda: model.infer({"INPUT0": OfGPU(x)}))[0]
server.stop()

server = tritonserver.Server(model_repository=sys.argv[1], startup_models=["builtin_identity"],
                             model_control_mode=tritonserver.ModelControlMode.EXPLICIT).start(wait_until_ready=True)
model = server.model("builtin_identity")
ask = lambda value: next(iter(model.infer(inputs={"INPUT0": value}))).outputs["OUTPUT0"]
tensor = ask(Shared(x))
buffer = tensor.memory_buffer
out["buffer"] = [buffer.size, buffer.memory_type.name, buffer.memory_type_id, buffer.data_ptr == tensor.data_ptr,
                 ctypes.c_float.from_address(buffer.data_ptr + 4).value]
owner = x + 1
own = MemoryBuffer.from_dlpack(owner)
out["own"] = [own.owner is owner, own.data_ptr == owner.ctypes.data, own.size]
made = Tensor(DataType.FP32, [2, 16], own)
out["made"] = [bool((ask(made).numpy() == owner).all()), np.shares_memory(made.numpy(), owner)]
address, want = owner.ctypes.data, owner.copy()
del owner, own
gc.collect()
out["kept"] = bool((made.numpy() == want).all()) and made.data_ptr == address
out["empty"] = Tensor(DataType.FP32, [0], MemoryBuffer.from_dlpack(np.empty(0, np.float32))).numpy().tolist()
out["refused"] = [said(MemoryBuffer.from_dlpack, [1]), said(MemoryBuffer.from_dlpack, x[:, ::2]),
                  said(lambda: Tensor(DataType.FP32, [1], MemoryBuffer(0, MemoryType.GPU, 0, 4, None)))]
out["there"] = [tensor.to_device(d) is tensor for d in (
    "cpu", "cpu:0", "CPU", MemoryType.CPU, (MemoryType.CPU, 0), (DLDeviceType.kDLCPU, 0), MemoryType.CPU_PINNED)]
out["host"] = tensor.to_host() is tensor
out["elsewhere"] = [said(tensor.to_device, d)[0] for d in (
    "gpu", "gpu:1", MemoryType.GPU, (MemoryType.GPU, 0), (DLDeviceType.kDLCUDA, 0), "cpu:1")]
out["wrong"] = [said(tensor.to_device, d)[0] for d in ("tpu", "cpu:x", (DLDeviceType.kDLMetal, 0))]
out["device"] = tensor.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
server.stop()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def shared(python, models):
    return run(python, DLPACK, models)


def test_B087_objects_with_dlpack_are_inputs(shared):
    assert shared["same"] == [True] * 4
    assert shared["half"] == shared["complex"] == shared["gpu"] == "InvalidArgumentError"


def test_B087_memory_buffers_of_tritons_module(shared):
    assert shared["buffer"] == [128, "CPU", 0, True, 1]
    assert shared["own"] == [True, True, 128] and shared["made"] == [True, True] and shared["kept"]
    assert shared["empty"] == []
    assert shared["refused"] == [
        ["InvalidArgumentError", "Object does not support DLpack protocol"],
        ["InvalidArgumentError", "Only contiguous memory is supported"],
        ["UnsupportedError", "memory of a GPU is not supported"]]


ENUMERATIONS = {"DataType": "TYPE", "MemoryType": "MEMORY", "InstanceGroupKind": "INSTANCEGROUPKIND", "LogLevel": "LOG",
                "ModelControlMode": "MODEL_CONTROL", "RateLimitMode": "RATE_LIMIT", "MetricKind": "METRIC_KIND",
                "MetricFormat": "METRIC", "ModelBatchFlag": "BATCH", "ModelTxnPropertyFlag": "TXN", "LogFormat": "LOG"}


def test_B087_the_enumerations_have_the_published_numbers(python):
    numbers = "{name: {e.name: int(e) for e in getattr(t, name)} for name in %r}" % list(ENUMERATIONS)
    said = run(python, "import json\nfrom nereid import tritonserver as t\nprint(json.dumps(%s))" % numbers)
    published = {name.removeprefix("TRITONSERVER_"): number for name, number, _ in published_numbers()}
    for name, prefix in ENUMERATIONS.items():
        for member, number in said[name].items():
            assert published["%s_%s" % (prefix, member)] == number, (name, member)


def test_B087_devices_of_tritons_module(shared):
    assert shared["there"] == [True] * 7 and shared["host"] and shared["device"]
    assert shared["elsewhere"] == ["UnsupportedError"] * 6 and shared["wrong"] == ["InvalidArgumentError"] * 3


PORTS = """
import json, os, sys
import nereid

def listening():
    \"\"\"The TCP ports on which this process waits.\"\"\"
    own = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            own.add(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass  # that of listdir
    rows = [line.split() for name in ("tcp", "tcp6") for line in open("/proc/self/net/" + name).readlines()[1:]]
    return sorted({int(r[1].rsplit(":", 1)[1], 16) for r in rows if r[3] == "0A" and "socket:[%s]" % r[9] in own})

options = json.loads(sys.argv[2])
with nereid.Server(sys.argv[1], model_control_mode="explicit", load_model=["builtin_identity"], **options):
    print(json.dumps(listening()), flush=True)
    sys.stdin.read()
print(json.dumps(listening()))
"""


@pytest.mark.parametrize("kinds", [(), ("http",), ("grpc",), ("metrics",), ("http", "grpc", "metrics")], ids="-".join)
def test_B087_a_port_is_open_if_it_is_wanted(python, models, kinds):
    ports = {kind: free_port() for kind in kinds}
    options = json.dumps({kind + "_port": port for kind, port in ports.items()})
    program = subprocess.Popen([python, "-c", PORTS, models, options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        first = program.stdout.readline()
        assert first, program.communicate()[1][-4000:]
        assert json.loads(first) == sorted(ports.values())
        if "http" in ports:
            assert httpclient.InferenceServerClient("127.0.0.1:%d" % ports["http"]).is_model_ready("builtin_identity")
        if "grpc" in ports:
            with grpcclient.InferenceServerClient("127.0.0.1:%d" % ports["grpc"]) as client:
                assert client.is_model_ready("builtin_identity")
        if "metrics" in ports:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % ports["metrics"]) as answer:
                assert b"nv_inference_request_success" in answer.read()
        end = program.communicate(timeout=60)
        assert program.returncode == 0 and json.loads(end[0]) == [], end[1][-4000:]
    finally:
        program.kill()
        program.wait()


MEMORY = """
import asyncio, json, sys
import numpy as np
import nereid

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

server = nereid.Server(sys.argv[1], model_control_mode="explicit", load_model=["builtin_identity"])
model, x = server.model("builtin_identity"), {"INPUT0": np.zeros((16, 16), np.float32)}

async def some(n):
    for _ in range(n):
        await model.async_infer(x)

def calls(n):
    for _ in range(n):
        model.infer(x)
    asyncio.run(some(n // 10))

count = int(sys.argv[2])
calls(count)
before = resident()
calls(count)
print(json.dumps(resident() - before))
"""


def test_B087_calls_leave_the_memory_flat(python, models):
    """A call moves 2 KiB."""
    count = 100_000
    grown = run(python, MEMORY, models, count, timeout=600, GOMEMLIMIT="200MiB")
    assert grown < 8 << 20, "%d calls leave %d bytes" % (count, grown)


def examples():
    page = (ROOT / "docs/embed.md").read_text()
    return re.findall(r"```python\n(.*?)```\n\nIt prints:\n\n(.*?)\n\n", page, re.S)


@pytest.mark.parametrize("number", [0, 1, 2], ids=["server", "front end", "functions"])
def test_B087_the_examples_of_the_documentation(python, number):
    program, printed = examples()[number]
    for port in (8000, 8001, 8002):  # others may use these
        program = program.replace(str(port), str(free_port()))
    done = subprocess.run([python, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [text.strip() for text in printed.splitlines()], done.stderr[-4000:]
