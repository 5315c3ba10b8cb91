"""nereid inspect and the page's route: what is in an ONNX file, and where its time goes."""

import json
import re
import shutil
import subprocess

import pytest
from onnx import TensorProto, helper

from harness import BINARY, REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no page")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(ROOT / "models-sample", tmp_path_factory.mktemp("inspect"), "--model-control-mode=explicit",
                "--load-model=digits", "--load-model=words") as s:
        yield s


def inspection(s, model, query=""):
    return s.request("GET", f"/api/models/{model}/inspection{query}", None, {}, s.ui_address)


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

    two = inspect("--runs=2", str(ROOT / "models-sample/mlp"), "digits")
    assert two.returncode == 2 and "name one model" in two.stderr, two.stderr
    text = inspect(str(ROOT / "models-sample/mlp"), "--runs=2")
    assert text.returncode == 0 and "669.7 thousand in 6 tensors" in text.stdout and "Gemm" in text.stdout, text.stderr
    by_json = inspect("--runs=1", "--shape=input:4,784", "--json", str(ROOT / "models-sample/mlp/1/model.onnx"))
    assert json.loads(by_json.stdout)["run"]["shapes"] == [[4, 784]]
    assert re.search(r"CPUExecutionProvider: \d+ nodes \(.*FusedGemm", text.stdout), text.stdout
    assert {o["op"] for o in json.loads(by_json.stdout)["run"]["providerOperators"]["CPUExecutionProvider"]} >= {"FusedGemm"}
    missing = inspect("--provider=openvino", str(ROOT / "models-sample/mlp"))
    assert missing.returncode == 1 and "has no OpenVINO execution provider" in missing.stderr, missing.stderr
    other = inspect(str(ROOT / "models-sample/words"))
    assert other.returncode == 1 and "has no model.onnx" in other.stderr


def test_a_file_that_is_newer_than_onnx_runtime_names_the_limits(tmp_path):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ports[:1], ports[1:])
    for opset, ir, says in (99, 8, "has opset 99 of ai.onnx, and this ONNX Runtime has opsets up to "), (
            17, 99, "has IR version 99, and this ONNX Runtime reads versions up to "):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
        (tmp_path / "new.onnx").write_bytes(model.SerializeToString())
        run, read = (subprocess.run([BINARY, "inspect", f"--runs={runs}", tmp_path / "new.onnx"], text=True,
                                    capture_output=True) for runs in (1, 0))
        assert run.returncode == 1 and says in run.stderr and "onnxruntime_src" not in run.stderr, run.stderr
        assert read.returncode == 0 and re.search(r"^input +x FP32 \[3\]$", read.stdout, re.M), read.stdout
        assert says in read.stdout and "onnxruntime_src" not in read.stdout, read.stdout


def test_F052_the_graph_of_a_file(server):
    g = server.request("GET", "/api/models/digits/graph", None, {}, server.ui_address).json
    assert g["count"] == len(g["nodes"]) == 13 and g["inputs"] == ["image"] and g["outputs"] == ["scores"]
    conv = g["nodes"][0]
    assert conv["op"] == "Conv" and g["weights"][conv["inputs"][1]] == "FP32 [16, 1, 5, 5]"
    assert {"name": "pads", "value": "[2, 2, 2, 2]"} in conv["attributes"], conv["attributes"]
    words = server.request("GET", "/api/models/words/graph", None, {}, server.ui_address)
    assert words.status == 501 and "this is for ONNX models" in words.error


def test_changes_are_measured_and_one_is_applied(tmp_path):
    """The card's button measures every change alone. One of them is then the configuration that serves."""
    shutil.copytree(ROOT / "models-sample/digits", tmp_path / "models/digits")
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        def page(method, path, body=None):
            answer = s.request(method, f"/api/models/digits/tunings{path}", json.dumps(body) if body else None,
                               {"X-Nereid": "1"},
                               s.ui_address)
            assert answer.status in (200, 202), answer
            return answer.json

        started = page("POST", "", {"search": "each", "windowMs": 50, "concurrency": "1", "maxBatchSizes": "present"})

        def ended():
            now = page("GET", f"/{started['id']}")
            return now if now["state"] != "running" else None
        done = until(ended, 300, "the tuning does not end", s.log)
        assert done["state"] == "done" and not any(t["failed"] for t in done["trials"]), done
        changes = [c["changes"] for c in done["configs"]]
        assert changes[0] == [] and all(len(c) == 1 for c in changes[1:]), changes
        fields = {c[0]["field"] for c in changes[1:]}
        assert fields == {"max_queue_delay", "instance_count", "intra_op_threads"}, fields
        assert all(t["rate"] > 0 and t["load"] == 1 for t in done["trials"]) and len(done["trials"]) == len(changes)
        two = next(i for i, c in enumerate(changes) if c and (c[0]["field"], c[0]["to"]) == ("instance_count", 2))
        saved = page("POST", f"/{done['id']}/apply", {"config": two})["saves"][0]
        assert saved["outcome"] == "loaded", saved
        assert s.get("/v2/models/digits/config").json["instance_group"][0]["count"] == 2


def test_the_command_measures_changes(tmp_path):
    shutil.copytree(ROOT / "models-sample/add_sub", tmp_path / "models/add_sub")
    done = subprocess.run([BINARY, "inspect", "--measure", "--runs=0", "--json", f"--data-dir={tmp_path}/data",
                           str(tmp_path / "models/add_sub")], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)["suggestions"]
    measured, precision = [x for x in got if "tune" in x["apply"]], [x for x in got if "convert" in x["apply"]]
    assert measured and all(x["ratio"] > 0 and x["p99Ratio"] > 0 and "concurrency" in x["how"] for x in measured), measured
    assert any(x["change"] == "instances 1 \u2192 2" for x in measured), measured
    assert all("--apply" in x["apply"] and f"--model-repository={tmp_path}/models" in x["apply"] for x in measured)
    assert [x["change"] for x in precision] == ["fp16", "int8"]
    assert all("the converters are not installed" in x["failed"] for x in precision), "a measurement installs nothing"
    file = subprocess.run([BINARY, "inspect", "--measure", "--runs=0", str(tmp_path / "models/add_sub/1/model.onnx")],
                          text=True,
                          capture_output=True)
    assert file.returncode == 1 and "is no model folder" in file.stderr
