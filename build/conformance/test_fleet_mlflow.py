"""The plugin for MLflow, used by the real mlflow of make test-fleet."""

import json
import subprocess
import threading

import pytest

from fleet import EXAMPLES, environment, lines, promised, run
from harness import BINARY, ROOT, Server, free_port, until
from tls import Certificates

pytestmark = pytest.mark.fleet

DIGITS = ROOT / "models-sample/digits/1/model.onnx"


@pytest.fixture(scope="module")
def env(packages):
    return environment("mlflow", PYTHONPATH=packages, MLFLOW_DISABLE_TELEMETRY="true")


@pytest.fixture(scope="module")
def saved(env, tmp_path_factory):
    """Sample models, saved by MLflow."""
    folder = tmp_path_factory.mktemp("saved")
    for name in ("digits", "add_sub", "identity_bytes"):
        run(["python", EXAMPLES / "mlflow/save.py", ROOT / "models-sample" / name / "1/model.onnx", folder / name], env)
    return folder


@pytest.fixture
def server(tmp_path):
    repository = tmp_path / "models"
    (repository / "of_the_repository/1").mkdir(parents=True)
    (repository / "of_the_repository/1/model.onnx").write_bytes(DIGITS.read_bytes())
    with Server(repository, tmp_path, "--model-control-mode=explicit", "--load-model=of_the_repository") as s:
        yield s


def script(env, server, text, *arguments):
    """Runs a Python script that has a client of the plugin, and returns the JSON that it prints last."""
    start = ("import json, sys\nfrom mlflow.deployments import get_deploy_client\n"
             "client = get_deploy_client(sys.argv[1])\n")
    end = "\nprint()\nprint(json.dumps(out))\n"
    return json.loads(lines(run(["python", "-c", start + text + end, "nereid://" + server.http, *arguments], env))[-1])


def test_G016_the_example_prints_what_its_page_says(env):
    printed = run([EXAMPLES / "mlflow/run.sh"], {**env, "PORT": str(free_port())})
    assert lines(printed) == lines(promised("mlflow"))


LIFE = """
import numpy as np, pandas as pd
out, folder = {}, sys.argv[2]
made = client.create_deployment("sums", folder + "/add_sub", config={"instance_group": '[{"count": 2}]'})
out["made"] = [made["name"], made["flavor"], made["model_uri"] == folder + "/add_sub"]
out["listed"] = [d["name"] for d in client.list_deployments()]
names = [i["name"] for i in client.get_deployment("sums")["inputs"]]
a, b = np.arange(16, dtype=np.float32).reshape(1, 16), np.ones((1, 16), np.float32)
said = client.predict("sums", {names[0]: a, names[1]: b})["predictions"]
out["dictionary"] = sorted(v == w.tolist() for v in said.values() for w in (a + b, a - b))
frame = pd.DataFrame({names[0]: [a[0].tolist()], names[1]: [b[0].tolist()]})
out["frame"] = client.predict("sums", frame)["predictions"] == said
client.create_deployment("digits", folder + "/digits")
image = np.random.default_rng(1).random((3, 1, 28, 28), np.float32)
out["array"] = np.asarray(client.predict("digits", image)["predictions"]["scores"]).shape
client.create_deployment("texts", folder + "/identity_bytes")
out["texts"] = list(client.predict("texts", np.array([["ä", "b"]], object))["predictions"].values())[0]
out["bytes"] = list(client.predict("texts", np.array([["ä".encode(), b"b"]]))["predictions"].values())[0]
client.delete_deployment("sums")
client.delete_deployment("sums")
out["left"] = [d["name"] for d in client.list_deployments()]
"""


def test_G016_deployments_of_several_models(env, server, saved):
    said = script(env, server, LIFE, saved)
    assert said["made"] == ["sums", "onnx", True] and said["listed"] == ["sums"]
    assert said["dictionary"] == [False, False, True, True] and said["frame"]
    assert said["array"] == [3, 10] and said["texts"] == said["bytes"] == [["ä", "b"]]
    assert said["left"] == ["digits", "texts"]


ERRORS = """
import pathlib
from mlflow.exceptions import MlflowException
out, folder = {}, sys.argv[2]
other = pathlib.Path(sys.argv[3])
other.mkdir()
(other / "MLmodel").write_text("flavors: {sklearn: {pickled_model: model.pkl}, python_function: {}}")
client.create_deployment("digits", folder + "/digits")
for name, call in {
        "twice": lambda: client.create_deployment("digits", folder + "/digits"),
        "flavour": lambda: client.create_deployment("other", str(other)),
        "asked": lambda: client.create_deployment("other", folder + "/digits", flavor="sklearn"),
        "field": lambda: client.create_deployment("other", folder + "/digits", config={"max_batch_sise": "1"}),
        "absent": lambda: client.get_deployment("absent"), "no update": lambda: client.update_deployment("absent"),
        "taken": lambda: client.create_deployment("of_the_repository", folder + "/digits"),
        "not ours": lambda: client.delete_deployment("of_the_repository"),
        "not ours either": lambda: client.update_deployment("of_the_repository", folder + "/digits"),
        "input": lambda: client.predict("digits", {"picture": [1]}),
        "shape": lambda: client.predict("digits", {"image": [[1, 2]]}),
        "large": lambda: client.create_deployment("large", sys.argv[4]),
}.items():
    try:
        call()
        out[name] = "no error"
    except MlflowException as e:
        out[name] = str(e)
"""


def test_G016_errors_name_their_cause(env, server, saved, tmp_path):
    large = tmp_path / "large"
    large.mkdir()
    (large / "MLmodel").write_text("flavors: {onnx: {data: model.onnx}}")
    (large / "model.onnx").write_bytes(bytes(65 << 20))
    said = script(env, server, ERRORS, saved, tmp_path / "sklearn", large)
    for name, part in {
        "twice": "a model digits is already served",
        "flavour": "log the model with mlflow.onnx. It has: python_function",
        "asked": "the flavor sklearn cannot be deployed", "field": "max_batch_sise",
        "absent": "there is no deployment absent", "no update": "there is no deployment absent",
        "taken": "a model of_the_repository is already served", "not ours": "MLflow has not deployed it",
        "not ours either": "MLflow has not deployed it", "input": "the model has no input picture; it has image",
        "shape": "shape", "large": "--http-max-input-size",
    }.items():
        assert part in said[name], said
    assert server.state("of_the_repository") == "READY"


REGISTER = """
import sys
import mlflow.onnx, onnx
with mlflow.start_run():
    mlflow.onnx.log_model(onnx.load(sys.argv[1]), name="digits", pip_requirements=["onnx"],
                          registered_model_name="digits")
"""


def test_G016_a_model_of_a_registry_goes_to_a_server_with_tls_and_tokens(env, tmp_path):
    certificates = Certificates(tmp_path / "tls")
    token = run([BINARY, "token", "create", "--name=a", "--scope=infer,control",
                 f"--data-dir={tmp_path / 'data'}"], env).strip()
    env = {**env, "MLFLOW_TRACKING_URI": f"file:{tmp_path / 'registry'}", "MLFLOW_ALLOW_FILE_STORE": "true",
           "REQUESTS_CA_BUNDLE": certificates.root}
    run(["python", "-c", REGISTER, DIGITS], env)
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", *certificates.options("http"), wait="",
                token=token) as s:
        create = ["mlflow", "deployments", "create", "-t", "nereid:https://" + s.http, "--name", "digits", "-m",
                  "models:/digits/1"]
        refused = subprocess.run(create, env=env, capture_output=True, text=True, timeout=300)
        assert refused.returncode != 0 and "401" in refused.stderr
        assert "onnx deployment digits is created" in run(create, {**env, "NEREID_TOKEN": token})


def test_G016_an_update_fails_no_request(env, server, saved):
    client = "nereid://" + server.http
    run(["mlflow", "deployments", "create", "-t", client, "--name", "digits", "-m", saved / "digits"], env)
    body = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0.0] * 784}]}
    stop, answers = threading.Event(), []

    def ask():
        while not stop.is_set():
            answers.append(server.post("/v2/models/digits/infer", body).status)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until(lambda: answers, 60, "no answer", server.log)
        run(["mlflow", "deployments", "update", "-t", client, "--name", "digits", "-m", saved / "digits",
             "-C", "max_batch_size=16"], env)
        before = len(answers)
        until(lambda: len(answers) > before, 60, "no answer after the update", server.log)
    finally:
        stop.set()
        asking.join()
    assert set(answers) == {200}
    assert server.get("/v2/models/digits/config").json["max_batch_size"] == 16
