"""The service mmesh.ModelRuntime: ModelMesh loads models from files, which clients then use over gRPC."""

import concurrent.futures
import importlib
import json
import sys

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
from grpc_tools import protoc

import models
from harness import REFERENCE, ROOT, Server, free_port

pytestmark = pytest.mark.skipif(REFERENCE, reason="ModelMesh has an adapter for Triton")

ADD_SUB = ROOT / "models-sample/add_sub"
LIMIT = 120  # seconds


def generated(folder, out):
    """The modules of the protocol, from the file model_runtime.proto in a folder."""
    assert protoc.main(["protoc", f"-I{folder}", f"--python_out={out}", f"--grpc_python_out={out}",
                        "model_runtime.proto"]) == 0
    sys.path.insert(0, str(out))
    try:
        return importlib.import_module("model_runtime_pb2"), importlib.import_module("model_runtime_pb2_grpc")
    finally:
        sys.path.remove(str(out))


@pytest.fixture(scope="session")
def mmesh(tmp_path_factory):
    return generated(ROOT / "app/modelmesh/mmesh", tmp_path_factory.mktemp("mmesh"))


class Mesh:
    """A server without models of its own, and ModelMesh's calls."""

    def __init__(self, work, mmesh, *options, address=None):
        self.messages, services = mmesh
        models.write_identity(work / "repository", "own")
        address = address or f"unix:{work}/mmesh.sock"
        self.server = Server(work / "repository", work, "--model-control-mode=explicit", "--load-model=own",
                             f"--modelmesh-address={address}", *options)
        self.server.start()
        self.channel = grpc.insecure_channel(address)
        self.stub = services.ModelRuntimeStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.server.stop()

    def status(self):
        return self.stub.runtimeStatus(self.messages.RuntimeStatusRequest(), wait_for_ready=True, timeout=LIMIT)

    def load(self, name, path):
        return self.stub.loadModel(self.messages.LoadModelRequest(modelId=name, modelType="onnx", modelPath=str(path)),
                                   timeout=LIMIT)

    def unload(self, name):
        self.stub.unloadModel(self.messages.UnloadModelRequest(modelId=name), timeout=LIMIT)

    def sums(self, name):
        """The first sum that add_sub answers under a name."""
        inputs = [tg.InferInput(n, [1, 16], "FP32") for n in ("INPUT0", "INPUT1")]
        for i in inputs:
            i.set_data_from_numpy(np.full((1, 16), 2, np.float32))
        with tg.InferenceServerClient(self.server.grpc) as client:
            return client.infer(name, inputs).as_numpy("OUTPUT0")[0, 0]

    def left(self):
        """What is in the folders of the service."""
        root = self.server.work / "data/modelmesh"
        return sorted(p.name for folder in ("models", "work") for p in (root / folder).iterdir())


@pytest.fixture(scope="module")
def mesh(tmp_path_factory, mmesh):
    with Mesh(tmp_path_factory.mktemp("mesh"), mmesh) as m:
        yield m


def test_G011_the_status_names_memory_and_methods(mesh):
    status = mesh.status()
    assert status.status == status.READY and status.runtimeVersion.startswith("nereid ")
    assert status.capacityInBytes > 1 << 28 and status.maxLoadingConcurrency == 4
    assert status.modelLoadingTimeoutMs == 1_800_000 and status.defaultModelSizeInBytes > 0
    infer = status.methodInfos["inference.GRPCInferenceService/ModelInfer"]
    assert list(infer.idInjectionPath) == [1]


@pytest.mark.parametrize("path", [ADD_SUB / "1/model.onnx", ADD_SUB / "1", ADD_SUB], ids=["file", "files", "folder"])
def test_G011_a_model_is_loaded_used_and_unloaded(mesh, path):
    name = "add-sub__isvc-0123456789"
    loaded = mesh.load(name, path)
    assert loaded.sizeInBytes > 0
    assert mesh.load(name, path).sizeInBytes > 0, "ModelMesh may ask again"
    assert mesh.sums(name) == 4
    assert mesh.stub.modelSize(mesh.messages.ModelSizeRequest(modelId=name)).sizeInBytes > 0
    mesh.unload(name)
    mesh.unload(name)
    assert mesh.server.get(f"/v2/models/{name}/ready").status == 400 and mesh.left() == []
    with pytest.raises(grpc.RpcError) as e:
        mesh.stub.modelSize(mesh.messages.ModelSizeRequest(modelId=name))
    assert e.value.code() == grpc.StatusCode.NOT_FOUND


def test_G011_sizes_are_estimated(mesh):
    def predict(**more):
        return mesh.stub.predictModelSize(mesh.messages.PredictModelSizeRequest(modelId="m", **more)).sizeInBytes

    assert predict(modelKey=json.dumps({"disk_size_bytes": 1000})) == 1250
    file = ADD_SUB / "1/model.onnx"
    assert predict(modelPath=str(file)) == file.stat().st_size * 5 // 4
    assert predict(modelPath="/there/is/none") == mesh.status().defaultModelSizeInBytes


@pytest.mark.parametrize("name, path, code, text", [
    ("a/b", ADD_SUB, grpc.StatusCode.INVALID_ARGUMENT, "plain folder name"),
    ("missing", "/there/is/none", grpc.StatusCode.INVALID_ARGUMENT, "/there/is/none"),
    ("coded", ROOT / "models-sample/running_sum", grpc.StatusCode.INVALID_ARGUMENT, "--modelmesh-allow-code"),
    ("own", ADD_SUB, grpc.StatusCode.INVALID_ARGUMENT, "has a model of the name own"),
])
def test_G011_what_cannot_be_loaded_says_why_and_leaves_nothing(mesh, name, path, code, text):
    with pytest.raises(grpc.RpcError) as e:
        mesh.load(name, path)
    assert (e.value.code(), text in e.value.details()) == (code, True), e.value.details()
    assert mesh.left() == []
    assert mesh.server.get("/v2/models/own/ready").status == 200


def test_G011_a_broken_file_is_refused(mesh, tmp_path):
    (tmp_path / "model.onnx").write_bytes((ADD_SUB / "1/model.onnx").read_bytes()[:100])
    with pytest.raises(grpc.RpcError) as e:
        mesh.load("broken", tmp_path / "model.onnx")
    assert e.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT) and e.value.details()
    assert mesh.left() == []


def test_G011_many_calls_at_one_time(mesh):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        names = [f"m{i % 4}" for i in range(16)]
        list(pool.map(lambda n: mesh.load(n, ADD_SUB), names))
        assert {float(mesh.sums(n)) for n in names} == {4} and mesh.left() == sorted(set(names))
        list(pool.map(mesh.unload, names))
    assert mesh.left() == []


def test_G011_the_status_unloads_what_is_loaded(mesh):
    mesh.load("first", ADD_SUB)
    mesh.status()
    assert mesh.left() == [] and mesh.server.get("/v2/models/first/ready").status == 400
    assert mesh.server.get("/v2/models/own/ready").status == 200


def test_G011_a_port_python_models_and_a_new_start(tmp_path, mmesh):
    with Mesh(tmp_path, mmesh, "--modelmesh-allow-code", address=f"127.0.0.1:{free_port()}") as mesh:
        mesh.load("coded", ROOT / "models-sample/running_sum")
        assert mesh.server.get("/v2/models/coded/ready").status == 200
        mesh.server.kill()
        mesh.server.start()
        assert mesh.status().status == mesh.messages.RuntimeStatusResponse.READY and mesh.left() == []
        mesh.load("coded", ADD_SUB)
        assert mesh.sums("coded") == 4
