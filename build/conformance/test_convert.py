"""nereid convert: models of scikit-learn, XGBoost and LightGBM become ONNX models that answer the same, and ONNX models
become smaller ones that answer nearly the same."""

import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image, ImageDraw, ImageFont

from harness import BINARY, REFERENCE, ROOT, Server, until

pytestmark = [pytest.mark.convert, pytest.mark.skipif(REFERENCE, reason="a command of nereid")]
DATA = ROOT / ".cache/convert"  # the environment with the converters is made once
PYTHON = DATA / "runtime/python/environments/framework-convert/bin/python"
TRAIN = pathlib.Path(__file__).parent / "python/train.py"


def convert(folder, file, *options, status=0):
    (folder / "models").mkdir(exist_ok=True)
    done = subprocess.run([BINARY, "convert", "-r", str(folder / "models"), f"--data-dir={DATA}", *options, str(file)],
                          capture_output=True, text=True, timeout=1800)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with small models of each framework, and with files that are none."""
    folder = tmp_path_factory.mktemp("trained")
    for name in ("none.joblib", "model.onnx"):
        (folder / name).write_bytes(b"no model")
    convert(folder, folder / "none.joblib", "--trust", status=1)  # installs the converters
    subprocess.run([PYTHON, TRAIN, str(folder)], check=True, timeout=300)
    return folder


CONVERTED = ["logistic.joblib", "forest.pkl", "pipeline.joblib", "svc.joblib", "mlp.joblib", "boosting.joblib",
             "knn.joblib",
             "bayes.joblib", "tree.joblib", "ridge.joblib", "pca.joblib", "scaler.joblib", "kmeans.joblib",
             "xgb_classes.joblib", "xgb_values.joblib", "lgb_classes.joblib", "lgb_values.joblib", "xgb_binary.json",
             "xgb_multi.ubj", "xgb_values.json", "lgb_binary.txt", "lgb_multi.txt", "lgb_values.txt",
             "mlflow.xgb", "mlflow.lgb"]


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
    assert out[1].split() == "OUTPUT MAX ABS MAX REL SAME LABEL SAME FIVE BEST".split()
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
    ("model.onnx", [], "say what to change"),
    ("model.onnx", ["--fp16", "--int8"], "exclude each other"),
    ("broken.json", ["--int8"], "are for ONNX models"),
    ("logistic.joblib", ["--trust", "--inputs=wide.npy"], "the model takes X float32 ['?', 4]"),
])
def test_what_cannot_be_converted_says_why(trained, tmp_path, monkeypatch, file, options, why):
    monkeypatch.chdir(trained)
    assert why in convert(tmp_path, trained / file, *options, status=1)
    assert os.listdir(tmp_path / "models") == []


SAMPLES = ROOT / "models-sample"


def pictures(n, seed):
    """Pictures of digits in a font of Pillow's own, of different size, place, slant and noise: FP32 [n, 1, 28, 28]."""
    random, out = np.random.default_rng(seed), []
    for i in range(n):
        size = random.integers(17, 25)
        picture = Image.new("L", (28, 28), 0)
        place = (14 + random.integers(-3, 4), 14 + random.integers(-3, 4))
        ImageDraw.Draw(picture).text(place, str(i % 10), 255, ImageFont.load_default(size), anchor="mm")
        picture = picture.rotate(random.uniform(-12, 12), Image.Resampling.BILINEAR)
        noisy = np.asarray(picture, np.float32) / 255 + random.normal(0, 0.05, (28, 28))
        out.append(np.clip(noisy, 0, 1).astype(np.float32)[None])
    return np.stack(out)


def infer(server, model, images):
    """The class of each picture."""
    classes = []
    for at in range(0, len(images), 32):
        part = images[at:at + 32]
        reply = server.post(f"/v2/models/{model}/infer", {"inputs": [
            {"name": "image", "datatype": "FP32", "shape": list(part.shape), "data": part.ravel().tolist()}]})
        classes += np.reshape(reply.json["outputs"][0]["data"], (-1, 10)).argmax(axis=1).tolist()
    return np.array(classes)


def test_smaller_models_of_digits_agree(tmp_path):
    """At least 99 % of pictures that no calibration saw have the same class, and golden requests pass."""
    np.save(tmp_path / "seen.npy", pictures(300, seed=1))
    file = SAMPLES / "digits/1/model.onnx"
    sizes = {}
    for name, options in {"digits_int8": ["--int8", f"--inputs={tmp_path}/seen.npy"], "digits_fp16": ["--fp16"],
                          "digits_simple": ["--simplify"], "digits_opset21": ["--opset=21"]}.items():
        report = json.loads(convert(tmp_path, file, "--json", *options))
        assert report["model"] == name and report["low"] == (name in ("digits_int8", "digits_fp16")), report
        sizes[name] = report["bytesAfter"] / report["bytesBefore"]
    assert sizes["digits_int8"] < 0.35 and sizes["digits_fp16"] < 0.55, sizes
    (tmp_path / "models/digits").symlink_to(SAMPLES / "digits")
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        images = pictures(600, seed=2)
        want = infer(s, "digits", images)
        assert len(set(want)) == 10, "the pictures are of all classes"
        agree = {name: float((infer(s, name, images) == want).mean()) for name in sizes}
        assert all(a >= 0.99 for a in agree.values()), agree
        labels = s.get("/v2/models/digits_int8/config").json["output"][0]
        assert labels["label_filename"] == "labels.txt"


@pytest.mark.parametrize("model, options", [("mlp", ["--fp16"]), ("add_sub", ["--fp16"]), ("mlp", ["--simplify"])])
def test_other_models_are_made_smaller(tmp_path, model, options):
    report = json.loads(convert(tmp_path, SAMPLES / model / "1/model.onnx", "--json", *options))
    assert report["outputs"] and all(o["error"] <= 0.01 for o in report["outputs"]), report
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        assert [state for state, _ in s.index().values()] == ["READY"]


def test_a_table_model_whose_output_would_become_fp16_is_refused(tmp_path):
    node = helper.make_node("LinearRegressor", ["X"], ["y"], domain="ai.onnx.ml", coefficients=[1.0, 2.0],
                            intercepts=[0.5], targets=1)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n]) for name, n in (("X", 2), ("y", 1))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "linear", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "linear.onnx")
    assert "an output would become FP16" in convert(tmp_path, tmp_path / "linear.onnx", "--fp16", status=1)


def test_calibration_from_saved_requests_and_pictures(tmp_path):
    """Saved requests have five rows. Pictures of another size and in colour are made as large as the model takes
    them."""
    saved = json.loads(convert(tmp_path, SAMPLES / "mlp/1/model.onnx", "--json", "--int8",
                               f"--inputs={SAMPLES}/mlp/requests"))
    assert saved["rows"] == 5 and not saved["made"] and saved["outputs"][0]["same"] == 5, saved
    (tmp_path / "pictures").mkdir()
    for i, picture in enumerate(pictures(40, seed=3)):
        image = Image.fromarray((picture[0] * 255).astype(np.uint8))
        image = image.convert("RGB").resize((56, 56)) if i % 2 else image
        image.save(tmp_path / f"pictures/{i}.{'jpg' if i % 3 else 'png'}")
    made = json.loads(convert(tmp_path, SAMPLES / "digits/1/model.onnx", "--json", "--int8",
                              f"--inputs={tmp_path}/pictures"))
    assert made["rows"] == 40 and not made["made"] and made["outputs"][0]["same"] == 40, made
    (tmp_path / "models/digits").symlink_to(SAMPLES / "digits")
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        ready = dict.fromkeys(("digits", "digits_int8", "mlp_int8"), "READY")
        assert {name: state for (name, _), (state, _) in s.index().items()} == ready
        images = pictures(100, seed=4)
        assert (infer(s, "digits_int8", images) == infer(s, "digits", images)).mean() >= 0.97


def test_calibration_from_captured_requests(tmp_path):
    """What clients sent while the capture was on calibrates. It becomes no golden request."""
    python = tmp_path / "data/runtime/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(DATA / "runtime/python")
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/digits").symlink_to(SAMPLES / "digits")
    order = ["--json", "--int8", "--inputs=captured:digits", f"--data-dir={tmp_path}/data"]
    file = SAMPLES / "digits/1/model.onnx"
    assert "no whole request of the model digits is captured" in convert(tmp_path, file, *order, status=1)
    with Server(tmp_path / "repository", tmp_path, wait="ready") as s:
        def capture(method, body=None):
            return s.request(method, "/api/models/digits/capture", body, {"X-Nereid": "1"}, s.ui_address).json
        capture("PUT", json.dumps({"on": True}))
        for at in range(0, 64, 16):
            infer(s, "digits", pictures(64, seed=5)[at:at + 16])
        until(lambda: capture("GET")["kept"] == 4, 60, "the requests are not captured", s.log)
        made = json.loads(convert(tmp_path, file, *order))  # while the server runs
    assert made["rows"] == 64 and not made["made"] and made["outputs"][0]["same"] >= 63, made
    assert sorted(os.listdir(tmp_path / "models/digits_int8")) == ["1", "config.pbtxt", "labels.txt", "report.json"]
    (tmp_path / "models/digits").symlink_to(SAMPLES / "digits")
    with Server(tmp_path / "models", tmp_path / "second", wait="ready") as s:
        images = pictures(100, seed=6)
        assert (infer(s, "digits_int8", images) == infer(s, "digits", images)).mean() >= 0.97


def test_weights_in_a_file_of_their_own(tmp_path):
    file = SAMPLES / "mlp/1/model.onnx"
    report = json.loads(convert(tmp_path, file, "--json", "--external-data"))
    assert report["model"] == "mlp_external" and report["outputs"][0]["error"] <= 1e-6, report
    weights = tmp_path / "models/mlp_external/1/model.onnx.data"
    assert weights.stat().st_size > 0.9 * file.stat().st_size
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        assert [state for state, _ in s.index().values()] == ["READY"]


@pytest.mark.parametrize("model, options, why", [
    ("mlp", ["--fp16", "--tolerance=0.000001"], "and the tolerance is 1e-06"),
    ("mlp", ["--int8"], "1 of 32 labels of the output output differ"),
    ("mlp", ["--opset=3"], "cannot be changed so"),
    ("mlp", ["--fp16", "--inputs=wide.npy"], "the inputs have the shape [4, 785], and the model takes input"),
    ("mlp", ["--fp16", "--inputs=none.npy"], "the inputs cannot be read"),
])
def test_onnx_models_that_cannot_be_changed_say_why(tmp_path, monkeypatch, model, options, why):
    monkeypatch.chdir(tmp_path)
    np.save("wide.npy", np.zeros((4, 785), np.float32))
    assert why in convert(tmp_path, SAMPLES / model / "1/model.onnx", *options, status=1)
    assert os.listdir(tmp_path / "models") == []
    (tmp_path / "no.onnx").write_bytes(b"no model")
    assert "cannot be read as ONNX" in convert(tmp_path, tmp_path / "no.onnx", "--fp16", status=1)


def test_F042_a_model_is_converted_measured_and_configured_by_one_command(trained, tmp_path):
    """The best variant is in the repository with its configuration, and is served. The figures of all stand beside
    it."""
    out = json.loads(convert(tmp_path, trained / "mlp.joblib", "--trust", "--json", "--optimize"))
    variants = {v["name"]: v for v in out["variants"]}
    assert list(variants)[:3] == ["converted", "fp16", "int8"] and out["outputs"][0]["rows"] == out["rows"] > 0, out
    taken = [v for v in out["variants"] if v["taken"]]
    assert len(taken) == 1 and taken[0]["failed"] == "" and taken[0]["rate"] > 0, variants
    best = max((v for v in out["variants"] if not v["failed"]), key=lambda v: v["rate"])
    assert taken[0] is best or best["rate"] < 1.1 * taken[0]["rate"], variants
    folder = tmp_path / "models/mlp"
    assert sorted(os.listdir(folder)) == ["1", "config.pbtxt", "golden", "labels.txt", "report.json", "variants.json"]
    assert [v["name"] for v in json.loads((folder / "variants.json").read_text())] == list(variants)
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        rows = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [2, 4], "data": [5, 3, 1, 0, 6, 3, 5, 2]}]}
        answer = s.post("/v2/models/mlp/infer", rows).json["outputs"]
        assert len({o["name"]: o["data"] for o in answer}["label"]) == 2, answer


def test_F042_a_budget_that_nothing_keeps_leaves_the_repository_empty(tmp_path):
    """The conversion's own variants whose answers differ are named with their reason."""
    said = convert(tmp_path, SAMPLES / "mlp/1/model.onnx", "--optimize", "--latency-budget=0.001", status=1)
    assert "no variant can be taken" in said and "keeps a p99 of 0.001 ms" in said, said
    assert "int8: 1 of 32 labels of the output output differ" in said, said
    assert os.listdir(tmp_path / "models") == []
