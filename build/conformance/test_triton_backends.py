"""Backend libraries of Triton's, made here from small C files, in the host process."""

import concurrent.futures
import re
import subprocess

import numpy as np
import pytest
import tritonclient.http as httpclient

from harness import ROOT, REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

SOURCES = ROOT / "build/conformance/triton"


def library(name, folder, *flags):
    """Compiles a test backend into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"libtriton_{name}.so"
    source = SOURCES / f"{name}.c"
    subprocess.run(["cc", "-O1", "-Werror=implicit", "-shared", "-fPIC", "-I", SOURCES, source, *flags, "-o", path],
                   check=True)
    return path


def model(repository, name, backend, config="", dims="-1", datatype="FP32"):
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(
        f'backend: "{backend}"\n'
        f'input {{ name: "IN" data_type: TYPE_{datatype} dims: [ {dims} ] }}\n'
        f'output {{ name: "OUT" data_type: TYPE_{datatype} dims: [ {dims} ] }}\n' + config)


def infer(server, name, values, **more):
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": list(np.shape(values)),
                        "data": np.ravel(values).tolist()}], **more}
    return server.post(f"/v2/models/{name}/infer", body)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("identity_test", backends / "identity_test")
    library("faults_test", backends / "faults_test")
    (backends / "empty_test").mkdir()
    (backends / "wrong_test").mkdir()
    (backends / "wrong_test/libtriton_wrong_test.so").write_text("not a library")
    (folder / "absent.c").write_text("int absent(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-o", folder / "libabsent_test.so", folder / "absent.c"], check=True)
    library("identity_test", backends / "lacking_test", "-Wl,--no-as-needed", folder / "libabsent_test.so").rename(
        backends / "lacking_test/libtriton_lacking_test.so")
    (folder / "libabsent_test.so").unlink()
    library("identity_test", models / "own" / "1").rename(models / "own/1/libtriton_own_test.so")
    model(models, "own", "own_test")
    model(models, "faulty", "faults_test")
    for name in ("wrong", "lacking", "empty"):
        model(models, name, f"{name}_test")
    model(models, "plain", "identity_test")
    model(models, "batched", "identity_test", "max_batch_size: 8 dynamic_batching { }")
    model(models, "texts", "identity_test", datatype="STRING")
    with Server(models, folder, f"--backend-directory={backends}", "--exit-on-error=false", wait="live") as s:
        until(lambda: all(state != "LOADING" for state, _ in s.index().values()), 60, "models load", s.log)
        yield s


def test_D076_a_backend_library_answers(server):
    answer = infer(server, "plain", [1, 2.5, -3])
    assert answer.status == 200, answer.body
    assert answer.json["outputs"][0]["data"] == [1, 2.5, -3]
    assert answer.json["parameters"]["batch"] == 1


def test_D076_a_library_in_the_folder_of_a_version(server):
    assert infer(server, "own", [7]).json["outputs"][0]["data"] == [7]


def test_D076_requests_are_batched(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: infer(server, "batched", [[n, n + 1]]), range(64)))
    assert [a.json["outputs"][0]["data"] for a in answers] == [[n, n + 1] for n in range(64)]


def test_D076_large_tensors_and_texts(server):
    values = np.arange(300_000, dtype=np.float32)
    with httpclient.InferenceServerClient(server.http) as client:
        tensor = httpclient.InferInput("IN", values.shape, "FP32")
        tensor.set_data_from_numpy(values)
        for _ in range(20):
            assert np.array_equal(client.infer("plain", [tensor]).as_numpy("OUT"), values)
        texts = np.array([b"a" * 9000, "é".encode(), b""], dtype=object)
        tensor = httpclient.InferInput("IN", texts.shape, "BYTES")
        tensor.set_data_from_numpy(texts)
        assert client.infer("texts", [tensor]).as_numpy("OUT").tolist() == texts.tolist()


@pytest.mark.parametrize("name, reason", [
    ("wrong", "libtriton_wrong_test.so is not a library of Linux"),
    ("lacking", "libabsent_test.so: cannot open shared object file"),
    ("empty", "unable to find backend library for backend 'empty_test'"),
])
def test_D076_a_library_that_cannot_be_opened_is_named(server, name, reason):
    assert reason in server.index()[name, "1"][1]


def test_D076_errors_of_a_batch_and_of_a_request(server):
    assert "the batch is refused" in infer(server, "faulty", [1]).error
    answer = infer(server, "faulty", [0])
    assert answer.status == 503 and answer.error == "the request is refused"


def test_D076_a_crash_ends_only_its_own_instance(server):
    for cause in (2, 3):
        assert infer(server, "faulty", [cause]).status == 503
        assert infer(server, "plain", [1]).status == 200
        until(lambda: server.get("/v2/models/faulty/ready").status == 200, 60, "not restarted", server.log)
    assert "refused" in infer(server, "faulty", [0]).error


def test_D076_the_steps_of_the_page_use_a_library(tmp_path):
    """docs/triton-backends.md, "Use a library": the files, the line of the configuration and the command."""
    text = (ROOT / "docs/triton-backends.md").read_text().split("## Use a library")[1]
    (file, _), (config, line), (version, _) = re.findall(r"^    (\S+/\S*)(?: +(.*))?$", text, re.M)[:3]
    made = library("identity_test", (tmp_path / file).parent)
    made.rename(tmp_path / file)
    (tmp_path / version).mkdir(parents=True)
    name = (tmp_path / config).parent.name
    model(tmp_path / "models", name, re.fullmatch('backend: "(\\w+)"', line)[1])
    options = re.search(r"nereid serve (--.*)", text)[1].replace("=", f"={tmp_path}/").split()
    with Server([], tmp_path, *options) as server:
        answer = infer(server, name, [1, 2])
        assert answer.json["outputs"][0]["data"] == [1, 2], answer.body
