"""ModelMesh's real adapter for Triton, beside a server. The calls are those of ModelMesh (mmesh.ModelRuntime)."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from fleet import EXAMPLES, environment
from harness import BINARY, ROOT, Server, free_port, until
from test_fleet_kserve import parsed, strict
from test_modelmesh import generated

pytestmark = pytest.mark.fleet

MODULE = "github.com/kserve/modelmesh-runtime-adapter"
DIGITS = ROOT / "models-sample/digits"


@pytest.fixture(scope="module")
def runtime():
    """The manifest of the example."""
    (found,) = parsed(environment("kserve"), (EXAMPLES / "modelmesh/runtime.yaml").read_text())
    return found


def their_protocol():
    where = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=ROOT / "build/fleet/modelmesh",
                           capture_output=True, text=True, check=True).stdout.strip()
    return pathlib.Path(where) / "internal/proto/mmesh/model-runtime.proto"


@pytest.fixture(scope="module")
def mmesh(tmp_path_factory):
    """The modules of ModelMesh's protocol, generated from the adapter's sources."""
    out = tmp_path_factory.mktemp("mmesh")
    shutil.copy(their_protocol(), out / "model_runtime.proto")
    return generated(out, out)


class Pod:
    """A server as the manifest starts it, and the adapter beside it, with the folders of a pod below work."""

    def __init__(self, work, runtime, mmesh):
        self.messages, services = mmesh
        self.models = work / "models"
        shell = runtime["spec"]["containers"][0]["args"][0]
        name, *options = shlex.split(shell.partition("exec ")[2])
        options.remove("--allow-ui=false")  # the harness reads its address
        options.remove("--model-repository=/models/_triton_models")
        options += [f"--{front}-address=127.0.0.1" for front in ("http", "grpc", "metrics")]
        repository = self.models / "_triton_models"
        repository.mkdir(parents=True)
        program = work / name
        program.symlink_to(BINARY)
        self.server = Server(repository, work, *options, command=[program], wait="live")
        self.server.start()
        port, self.log = free_port(), work / "adapter.log"
        settings = {"ADAPTER_PORT": port, "RUNTIME_PORT": self.server.grpc.rpartition(":")[2],
                    "ROOT_MODEL_DIR": self.models, "CONTAINER_MEM_REQ_BYTES": 1 << 30}
        with open(self.log, "w") as log:
            self.adapter = subprocess.Popen([ROOT / ".cache/bin/model-mesh-triton-adapter"], stdout=log, stderr=log,
                                            env={**os.environ, **{k: str(v) for k, v in settings.items()}})
        self.channel = grpc.insecure_channel(f"localhost:{port}")
        self.stub = services.ModelRuntimeStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.adapter.terminate()
        self.adapter.wait(60)
        self.server.stop()

    def status(self):
        return self.stub.runtimeStatus(self.messages.RuntimeStatusRequest(), wait_for_ready=True, timeout=60)

    def load(self, name, path):
        key = json.dumps({"model_type": {"name": "onnx", "version": "1"}, "disk_size_bytes": 1000000})
        return self.stub.loadModel(self.messages.LoadModelRequest(modelId=name, modelType="onnx", modelPath=str(path),
                                                                  modelKey=key), timeout=120)

    def unload(self, name):
        self.stub.unloadModel(self.messages.UnloadModelRequest(modelId=name), timeout=120)


@pytest.fixture
def pod(tmp_path, runtime, mmesh):
    with Pod(tmp_path, runtime, mmesh) as p:
        until(lambda: p.status().status == p.messages.RuntimeStatusResponse.READY, 60, "not ready", p.log.read_text)
        yield p


def test_G011_the_manifest_decodes_into_the_types_of_kserve(runtime):
    assert strict([runtime]) == (["serving.kserve.io/v1alpha1 ServingRuntime"], "")
    assert runtime["spec"]["builtInAdapter"]["serverType"] == "triton"


def test_G011_the_manifest_without_the_adapter_names_the_address_of_the_service():
    (found,) = parsed(environment("kserve"), (EXAMPLES / "modelmesh/own.yaml").read_text())
    assert strict([found]) == (["serving.kserve.io/v1alpha1 ServingRuntime"], "") and "builtInAdapter" not in found["spec"]
    address = "--modelmesh-address=127.0.0.1" + found["spec"]["grpcEndpoint"].removeprefix("port")
    assert address in found["spec"]["containers"][0]["args"]


def described(proto, tmp_path):
    """The services, messages and fields of a protocol, without its comments and file options."""
    out = tmp_path / "set"
    assert protoc.main(["protoc", f"-I{proto.parent}", f"--descriptor_set_out={out}", proto.name]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    file.ClearField("options")
    file.ClearField("name")
    for message in file.message_type:
        message.ClearField("options")
    return file


def test_G011_the_protocol_is_that_of_modelmesh(tmp_path):
    ours = ROOT / "app/modelmesh/mmesh/model_runtime.proto"
    assert described(ours, tmp_path) == described(their_protocol(), tmp_path)


@pytest.mark.parametrize("layout", ["file", "folder"])
def test_G011_the_adapter_loads_and_unloads_models(pod, tmp_path, layout):
    pulled = tmp_path / "models" / "pulled"  # where ModelMesh's puller puts what it has fetched
    if layout == "file":
        pulled.mkdir()
        shutil.copy(DIGITS / "1/model.onnx", pulled / "digits.onnx")
        given = pulled / "digits.onnx"
    else:
        shutil.copytree(DIGITS, pulled)
        given = pulled
    for _ in range(2):  # a model comes again after it was evicted
        assert pod.load("digits__isvc-0a1b2c", given).sizeInBytes >= 1000000
        x = np.zeros((1, 1, 28, 28), np.float32)
        tensor = tg.InferInput("image", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        with tg.InferenceServerClient(pod.server.grpc) as client:
            assert client.infer("digits__isvc-0a1b2c", [tensor]).as_numpy("scores").shape == (1, 10)
        pod.unload("digits__isvc-0a1b2c")
        assert pod.server.index(ready=True) == {}
    pod.unload("digits__isvc-0a1b2c")  # ModelMesh may do so


def test_G011_faults_and_a_restart_of_the_adapter(pod, tmp_path):
    broken = tmp_path / "models" / "broken"
    broken.mkdir()
    (broken / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(grpc.RpcError, match="load failed for model 'broken'.*give an ONNX model"):
        pod.load("broken", broken / "broken.onnx")
    shutil.copy(DIGITS / "1/model.onnx", tmp_path / "models/good.onnx")
    pod.load("good", tmp_path / "models/good.onnx")
    assert {n for n, _ in pod.server.index(ready=True)} == {"good"}
    assert pod.status().capacityInBytes > 0  # asked when ModelMesh starts: models of the time before are unloaded
    assert pod.server.index(ready=True) == {}
