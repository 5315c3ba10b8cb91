"""nereid inspect and the page's route: what is in an ONNX file, and where its time goes."""

import json
import subprocess

import pytest

from harness import BINARY, REFERENCE, ROOT, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no page")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(ROOT / "models-sample", tmp_path_factory.mktemp("inspect"), "--model-control-mode=explicit",
                "--load-model=digits", "--load-model=words") as s:
        yield s


def inspection(s, model, query=""):
    return s.request("GET", f"/api/models/{model}/inspection{query}", None, {}, s.ui.removeprefix("http://"))


def test_F052_the_file_of_a_model_is_described(server):
    x = inspection(server, "digits").json
    assert x["run"] is None and x["irVersion"] == 8 and x["opsets"] == [{"domain": "", "version": 17}]
    assert {o["op"]: o["count"] for o in x["operators"]}["Conv"] == 3
    assert x["weights"] == [{"dataType": "FP32", "tensors": 10, "elements": 170170, "bytes": 680680}]
    assert x["inputs"][0]["dimNames"][0] == "batch" and x["file"].endswith("digits/1/model.onnx")


def test_a_run_is_measured_by_operator_and_node(server):
    run = inspection(server, "digits", "?runs=3&dims=batch=8").json["run"]
    assert run["runs"] == 3 and run["shapes"] == [[8, 1, 28, 28]]
    assert 0 < run["bestUs"] <= run["medianUs"] <= run["worstUs"] and run["memoryBytes"] > 680680
    assert run["flops"] == sum(n["flops"] for n in run["nodes"]) > 0
    assert abs(sum(o["share"] for o in run["operators"]) - 1) < 1e-6
    assert sum(run["providers"].values()) == run["nodeCount"] == len(run["nodes"])


@pytest.mark.parametrize("model, query, status, text", [
    ("words", "", 501, "this is for ONNX models"), ("missing", "", 404, "no model"), ("digits", "?version=7", 400, "7"),
    ("digits", "?version=..", 404, "no version"), ("digits", "?dims=--data-dir", 400, "no size of a dimension"),
    ("digits", "?runs=1000", 400, "runs"), ("digits", "?runs=1&dims=batch=99999999999", 400, "too large"),
])
def test_what_cannot_be_inspected_is_said(server, model, query, status, text):
    answer = inspection(server, model, query)
    assert answer.status == status and text in answer.error, answer.body


def test_the_command_prints_and_writes_json(tmp_path):
    def inspect(*args):
        return subprocess.run([BINARY, "inspect", f"--data-dir={tmp_path}", *args], text=True, capture_output=True)

    text = inspect(str(ROOT / "models-sample/mlp"), "--runs=2")
    assert text.returncode == 2, "options come before the model"
    text = inspect("--runs=2", str(ROOT / "models-sample/mlp"))
    assert text.returncode == 0 and "669.7 thousand in 6 tensors" in text.stdout and "Gemm" in text.stdout, text.stderr
    by_json = inspect("--runs=1", "--shape=input:4,784", "--json", str(ROOT / "models-sample/mlp/1/model.onnx"))
    assert json.loads(by_json.stdout)["run"]["shapes"] == [[4, 784]]
    other = inspect(str(ROOT / "models-sample/words"))
    assert other.returncode == 1 and "has no model.onnx" in other.stderr


def test_F052_the_graph_of_a_file(server):
    g = server.request("GET", "/api/models/digits/graph", None, {}, server.ui.removeprefix("http://")).json
    assert g["count"] == len(g["nodes"]) == 13 and g["inputs"] == ["image"] and g["outputs"] == ["scores"]
    conv = g["nodes"][0]
    assert conv["op"] == "Conv" and g["weights"][conv["inputs"][1]] == "FP32 [16, 1, 5, 5]"
    assert {"name": "pads", "value": "[2, 2, 2, 2]"} in conv["attributes"], conv["attributes"]
    words = server.request("GET", "/api/models/words/graph", None, {}, server.ui.removeprefix("http://"))
    assert words.status == 501 and "this is for ONNX models" in words.error
