"""Every framework that has packages runs for real, all in one repository. `make test-frameworks` installs them and runs this;
NEREID_FRAMEWORKS is the data folder that they were installed into."""

import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import ROOT, Server

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

NAMES = ("pytorch", "tensorflow", "openvino")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    installed = pathlib.Path(os.environ["NEREID_FRAMEWORKS"], "runtime", "python", "environments").resolve()
    work = tmp_path_factory.mktemp("frameworks")
    repo, environments = work / "models", work / "data" / "runtime" / "python" / "environments"
    environments.mkdir(parents=True)
    for path in (work / "data", work / "data" / "runtime", work / "data" / "runtime" / "python", environments):
        path.chmod(0o700)
    maker = ROOT / "build" / "frameworks" / "make_models.py"
    for name in NAMES:
        os.symlink(installed / f"framework-{name}", environments / f"framework-{name}")
        subprocess.run([installed / f"framework-{name}" / "bin" / "python", maker, name, repo], check=True)
    subprocess.run([sys.executable, maker, "onnx", repo], check=True)
    with Server(repo, work, "--exit-on-error=false", "--strict-readiness=false", wait="live", limit=400) as s:
        yield s


def add_sub(server, model, inputs, outputs, batch=2):
    a = np.arange(16 * batch, dtype=np.float32).reshape(batch, 16)
    b = np.full((batch, 16), 3, np.float32)
    for module, address in ((httpclient, server.http), (grpcclient, server.grpc)):
        client = module.InferenceServerClient(address)
        given = []
        for name, value in zip(inputs, (a, b)):
            tensor = module.InferInput(name, list(value.shape), "FP32")
            tensor.set_data_from_numpy(value)
            given.append(tensor)
        result = client.infer(model, given)
        np.testing.assert_array_equal(result.as_numpy(outputs[0]), a + b)
        np.testing.assert_array_equal(result.as_numpy(outputs[1]), a - b)
        client.close()


@pytest.mark.parametrize(
    "model, inputs, outputs",
    [
        pytest.param("add_sub_pt", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"), id="TorchScript"),
        pytest.param("add_sub_named", ("a", "b"), ("sum__0", "difference__1"), id="TorchScript by the names of arguments"),
        pytest.param("add_sub_pt2", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"), id="an exported program"),
        pytest.param("add_sub_savedmodel", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"), id="SavedModel, completed from the file"),
        pytest.param("add_sub_graphdef", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"), id="a frozen graph"),
        pytest.param("add_sub_openvino", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"), id="OpenVINO, completed from the file"),
    ],
)
def test_add_sub(server, model, inputs, outputs):
    add_sub(server, model, inputs, outputs)


def ask(server, model, name, value, kind, version=""):
    client = httpclient.InferenceServerClient(server.http)
    tensor = httpclient.InferInput(name, list(value.shape), kind)
    tensor.set_data_from_numpy(value)
    return client.infer(model, [tensor], model_version=version)


def test_three_versions(server):
    """resnet50_pt in three versions, each with an answer of its own."""
    picture = np.random.default_rng(0).random((1, 3, 32, 32), dtype=np.float32)
    for version in ("1", "2", "3"):
        scores = ask(server, "resnet50_pt", "INPUT__0", picture, "FP32", version).as_numpy("OUTPUT__0")
        assert scores.shape == (1, 10) and scores.argmax() == int(version)


def test_others_of_the_repository(server):
    picture = np.zeros((1, 28, 28), np.float32)
    picture[0, 7] = 1
    assert ask(server, "mnist_savedmodel", "image", picture, "FP32").as_numpy("brightest").tolist() == [[7]]
    picture = np.random.default_rng(1).random((1, 3, 8, 8), dtype=np.float32)
    result = ask(server, "densenet_onnx", "data_0", picture, "FP32").as_numpy("fc6_1")
    np.testing.assert_array_equal(result, picture.max(axis=(2, 3), keepdims=True))


@pytest.mark.parametrize("model, name, output", [("upper_pt", "texts", "OUTPUT__0"), ("upper_savedmodel", "text", "shouted")])
def test_texts(server, model, name, output):
    value = np.array([b"ab", b"c"], dtype=object)
    if model == "upper_savedmodel":
        value = value.reshape(2, 1)  # completed: a batch of single texts
    assert ask(server, model, name, value, "BYTES").as_numpy(output).ravel().tolist() == [b"AB", b"C"]


def test_bfloat16(server):
    value = np.array([[1, 2, -3, 0.5]], ml_dtypes.bfloat16)
    result = ask(server, "twice_bf16", "INPUT__0", value, "BF16").as_numpy("OUTPUT__0")
    np.testing.assert_array_equal(result.astype(np.float32), value.astype(np.float32) * 2)


def test_joined_into_a_batch(server):
    """Requests of several clients get their own rows."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(add_sub, server, "add_sub_pt", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"), n % 3 + 1) for n in range(40)]:
            done.result()


def test_broken_file(server):
    index = {m["name"]: m for m in httpclient.InferenceServerClient(server.http).get_model_repository_index()}
    assert index["broken_pt"]["state"] == "UNAVAILABLE"
    assert "RuntimeError" in index["broken_pt"]["reason"], index["broken_pt"]["reason"]
