"""nereid convert: models of scikit-learn, XGBoost and LightGBM become ONNX models that answer the same."""

import json
import os
import pathlib
import subprocess

import pytest

from harness import BINARY, REFERENCE, ROOT, Server

pytestmark = [pytest.mark.convert, pytest.mark.skipif(REFERENCE, reason="a command of nereid")]
DATA = ROOT / ".cache/convert"  # the environment with the converters is made once
PYTHON = DATA / "runtime/python/environments/framework-convert/bin/python"
TRAIN = pathlib.Path(__file__).parent / "python/train.py"


def convert(folder, file, *options, status=0):
    (folder / "models").mkdir(exist_ok=True)
    done = subprocess.run([BINARY, "convert", "-r", str(folder / "models"), f"--data-dir={DATA}", *options, str(file)],
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with small models of each framework, and with files that are none."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "none.joblib").write_bytes(b"no pickle")
    convert(folder, folder / "none.joblib", "--trust", status=1)  # installs the converters
    subprocess.run([PYTHON, TRAIN, str(folder)], check=True, timeout=300)
    return folder


CONVERTED = ["logistic.joblib", "forest.pkl", "pipeline.joblib", "svc.joblib", "mlp.joblib", "boosting.joblib", "knn.joblib",
             "bayes.joblib", "tree.joblib", "ridge.joblib", "pca.joblib", "scaler.joblib", "kmeans.joblib",
             "xgb_classes.joblib", "xgb_values.joblib", "lgb_classes.joblib", "lgb_values.joblib", "xgb_binary.json",
             "xgb_multi.ubj", "xgb_values.json", "lgb_binary.txt", "lgb_multi.txt", "lgb_values.txt"]


def test_models_answer_as_before(trained, tmp_path):
    """Each is loaded with its golden requests, whose answers are those of the framework."""
    faults = {}
    for file in CONVERTED:
        name = file.replace(".", "_")
        try:
            report = json.loads(convert(tmp_path, trained / file, "--trust", "--json", f"--name={name}"))
            assert report["outputs"] and report["rows"] > 0, report
        except AssertionError as e:
            faults[file] = str(e)[-600:]
    assert not faults, "\n".join(f"{file}: {why}" for file, why in faults.items())
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        states = s.index()
        assert len(states) == len(CONVERTED) and all(state == "READY" for state, _ in states.values()), states
        rows = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [2, 4], "data": [5, 3, 1, 0, 6, 3, 5, 2]}]}
        answer = s.post("/v2/models/forest_pkl/infer", rows).json["outputs"]
        assert {o["name"]: o["data"] for o in answer}["label"] == ["setosa", "virginica"]


def test_given_rows_and_what_is_printed(trained, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,c,d\n5,3,1,0\n6,3,5,2\n")
    out = convert(tmp_path, trained / "logistic.joblib", "--trust", f"--inputs={tmp_path}/rows.csv").splitlines()
    assert out[0].startswith("scikit-learn ") and out[0].endswith("compared on 2 rows that were given")
    assert out[1].split() == ["OUTPUT", "MAX", "ABS", "MAX", "REL", "SAME", "LABEL"]
    assert sorted(os.listdir(tmp_path / "models/logistic")) == [
        "1", "config.pbtxt", "golden", "labels.txt", "report.json"]
    assert 'label_filename: "labels.txt"' in (tmp_path / "models/logistic/config.pbtxt").read_text()
    assert "is in" in convert(tmp_path, trained / "logistic.joblib", "--trust", status=1)


@pytest.mark.parametrize("file, options, why", [
    ("logistic.joblib", [], "say --trust"),
    ("none.joblib", ["--trust"], "cannot be read as a pickle"),
    ("foreign.pkl", ["--trust"], "it needs code that is not here"),
    ("weights.pkl", ["--trust"], "weights by name"),
    ("number.pkl", ["--trust"], "not a trained model"),
    ("gaussian.joblib", ["--trust", "--tolerance=0"], "and the tolerance is 0"),
    ("spreading.joblib", ["--trust"], "Serve it with the Python backend"),
    ("broken.json", [], "XGBoost cannot read it"),
    ("broken.txt", [], "LightGBM cannot read it"),
    ("model.pt", [], "torch.onnx.export"),
    ("model.h5", [], "tf2onnx"),
    ("logistic.joblib", ["--trust", "--inputs=wide.npy"], "takes rows of 4 numbers"),
])
def test_what_cannot_be_converted_says_why(trained, tmp_path, monkeypatch, file, options, why):
    monkeypatch.chdir(trained)
    assert why in convert(tmp_path, trained / file, *options, status=1)
    assert os.listdir(tmp_path / "models") == []
