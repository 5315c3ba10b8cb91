"""nereid convert: models of PyTorch, TensorFlow, PaddlePaddle, CatBoost and Caffe2 become ONNX models that answer the
same."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

from harness import REFERENCE, ROOT, Server
from test_convert import DATA, convert

pytestmark = [pytest.mark.convert, pytest.mark.timeout(3600),
              pytest.mark.skipif(REFERENCE, reason="a command of nereid")]
MAKE = pathlib.Path(__file__).parent / "python/make_nets.py"
IMAGE = "--shape=image:-1,1,8,8"
NET = ["--trust", "--class=nets.py:Net", "--arguments={\"hidden\": 5}", IMAGE]

# What is converted, and the options.
MODELS = {
    "pytorch": [
        ("script.pt", [IMAGE]), ("copy.torchscript", [IMAGE]),
        ("trace.pt", ["--shape=tokens:INT64:-1,6", "--shape=scale:-1,4"]), ("weights.pth", NET),
        ("weights.safetensors", NET),
        ("checkpoint.pt", NET), ("program.pt2", ["--trust"]), ("fixed.pt2", ["--trust"]),
        ("whole.pt", ["--trust", IMAGE]),
        ("mlflow_code/data/model.pth", ["--trust", IMAGE]), ("mlflow_value/data/model.pth", ["--trust", IMAGE]),
        ("torchvision:squeezenet1_1", ["--shape=-1,3,64,64"]),
        ("timm:mobilenetv3_small_050", ["--arguments={\"num_classes\": 7}", "--shape=-1,3,64,64"]),
        ("program.pt2", ["--trust", "--external-data", "--name=outside"])],
    "tensorflow": [("saved", []), ("net.keras", []), ("old.h5", []), ("two.keras", []), ("net.tflite", []),
                   ("frozen.pb", []),
                   ("lambda.keras", ["--trust"])],
    "paddle": [("paddle_net.json", []), ("paddle_table.json", [])],
    "catboost": [("classes.cbm", []), ("two.cbm", []), ("values.cbm", [])],
    "caffe2": [("predict_net.pb", ["--shape=-1,1,8,8"]), ("two.netdef", ["--shape=right:-1,6", "--shape=left:-1,4"]),
               ("filled_predict_net.pb", ["--shape=data:-1,4"])],
}

# What cannot be converted, the options, and what the error says.
REFUSED = {
    "pytorch": [
        ("program.pt2", [], "say --trust"), ("timm:nets.py:Net", [], "no library has"),
        ("script.pt", [], "Say --shape"),
        ("whole.pt", [], "it is a pickle with nets.Net: to read it runs"), ("whole.pt", ["--trust"], "Say --shape"),
        ("mlflow_value/data/model.pth", [], "say --trust"),
        ("mlflow_gone/data/model.pth", ["--trust", IMAGE],
         "the class of its model is not here: No module named 'nets'"),
        ("weights.pth", [], "weights by name, not a model. Say --class"), ("weights.pth", NET[1:], "say --trust"),
        ("weights.pth", ["--class=torchvision:resnet18"], "are not those of this class"),
        ("weights.pth", ["--trust", "--class=nets.py:Gone", IMAGE], "makes no Gone"),
        ("broken.pt", [], "PyTorch cannot read it"), ("timm:no_such_model", [], "has no model no_such_model"),
        ("script.pt", ["--shape=image:-1,3,8,8"], "does not answer these inputs")],
    "tensorflow": [("lambda.keras", [], "has a Lambda layer"), ("lambda.h5", [], "has a Lambda layer"),
                   ("none.pb", [], "no frozen graph")],
    "paddle": [("alone.pdmodel", [], "its weights are not here")],
    "catboost": [("words.cbm", [], "features that are no numbers"), ("truth.cbm", [], "Unexpected label type"),
                 ("none.cbm", [], "CatBoost cannot read it")],
    "caffe2": [("predict_net.pb", [], "Say --shape, such as --shape=data:-1,3,224,224"),
               ("init_net.pb", [], "has the weights"),
               ("init_two.netdef", [], "has the weights"), ("alone.netdef", [], "init_alone.netdef is not here"),
               ("filled_predict_net.pb", [], "filled with examples"),
               ("two.netdef", ["--shape=up:-1,6", "--shape=left:-1,4"], "its inputs are left, right"),
               ("two.netdef", ["--opset=12", "--shape=-1,4", "--shape=-1,6"], "--opset is not for"),
               ("code.netdef", ["--shape=-1,4"], "ONNX has no operator for Python"),
               ("two.netdef", ["--shape=-1,5", "--shape=-1,6"], "does not answer these inputs")],
}
KINDS = list(MODELS)
FIRST = {"pytorch": ["broken.pt"], "tensorflow": ["none.pb"], "paddle": ["alone.pdmodel"], "catboost": ["none.cbm"],
         "caffe2": ["none_predict_net.pb"]}


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A framework, and a folder with small models of it."""
    kind, folder = request.param, tmp_path_factory.mktemp(request.param)
    for name in FIRST[kind]:
        (folder / name).write_bytes(b"nothing")
        convert(folder, folder / name, status=1)  # installs the converters
    python = DATA / f"runtime/python/environments/framework-convert-{kind}/bin/python"
    done = subprocess.run([python, "-W", "ignore", MAKE, kind, str(folder)], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return kind, folder


def test_models_answer_as_before(made, tmp_path, monkeypatch):
    """Each differs by 1e-4 at most, and is loaded with its golden requests, whose answers are those of the
    framework."""
    kind, folder = made
    monkeypatch.chdir(folder)
    faults, names = {}, set()
    for file, options in MODELS[kind]:
        name = "m_" + re.sub("[.:/]", "_", file)
        options = options if any(o.startswith("--name=") for o in options) else [*options, f"--name={name}"]
        try:
            report = json.loads(convert(tmp_path, file, "--json", *options))
            assert report["outputs"] and report["rows"] > 0 and report["provider"] == "CPUExecutionProvider", report
            assert all(o["same"] == o["rows"] if o["error"] is None else o["error"] <= 1e-4 for o in report["outputs"]), report
            names.add(report["model"])
        except AssertionError as e:
            faults[file] = str(e)[-900:]
    assert not faults, "\n".join(f"{file}: {why}" for file, why in faults.items())
    assert len(names) == len(MODELS[kind])
    with Server(tmp_path / "models", tmp_path, wait="ready") as s:
        assert {name: state for (name, _), (state, _) in s.index().items()} == {name: "READY" for name in names}
        if kind == "pytorch":
            assert (tmp_path / "models/outside/1/model.onnx.data").stat().st_size > 2000
            image = np.zeros((3, 1, 8, 8), np.float32)
            answer = s.post("/v2/models/m_script_pt/infer", {"inputs": [
                {"name": "image", "datatype": "FP32", "shape": list(image.shape), "data": image.ravel().tolist()}]})
            assert answer.json["outputs"][0]["shape"] == [3, 3], answer.json


def test_what_cannot_be_converted_says_why(made, tmp_path, monkeypatch):
    kind, folder = made
    monkeypatch.chdir(folder)
    for file, options, why in REFUSED[kind]:
        assert why in convert(tmp_path, file, *options, status=1), (file, options)
        assert os.listdir(tmp_path / "models") == [], file
        shutil.rmtree(tmp_path / "models")


@pytest.mark.parametrize("made", ["tensorflow"], indirect=True)
def test_text_detection_through_tensorflow(made, tmp_path):
    """The network of docs/examples/ocr, exported through TensorFlow, answers as the file that PyTorch exported."""
    scripts, direct = ROOT / "build/scripts", ROOT / "docs/examples/ocr/models/text_detection/1/model.onnx"
    python = DATA / "runtime/python/environments/framework-convert-tensorflow/bin/python"
    subprocess.run([sys.executable, scripts / "style/weights.py", direct, tmp_path / "w.npz"], check=True)
    subprocess.run([python, scripts / "ocr/tensorflow_detection.py", tmp_path / "w.npz", tmp_path / "saved"],
                   check=True)
    np.save(tmp_path / "seen.npy", np.random.default_rng(1).uniform(0, 255, (4, 64, 96, 3)).astype(np.float32))
    report = json.loads(convert(tmp_path, tmp_path / "saved", "--json", "--name=text_detection",
                                f"--inputs={tmp_path}/seen.npy"))
    assert all(o["error"] <= 1e-4 for o in report["outputs"]), report
    sessions = [onnxruntime.InferenceSession(f) for f in (direct, tmp_path / "models/text_detection/1/model.onnx")]
    names = [[t.name for t in (*s.get_inputs(), *s.get_outputs())] for s in sessions]
    assert sorted(names[0]) == sorted(names[1]), names
    for shape in (1, 96, 160, 3), (2, 64, 32, 3):
        pictures = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
        wanted, got = [s.run(names[0][1:], {names[0][0]: pictures}) for s in sessions]
        for name, want, have in zip(names[0][1:], wanted, got):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("file, why", [
    ("net.caffemodel", "OpenVINO"), ("net.params", "MXNet"), ("net.mlmodel", "Core ML"),
    ("net.plan", "TensorRT"), ("net.gguf", "Serve it with a Python model"), ("net.ckpt", "export a SavedModel"),
    ("net.mar", "nereid get"), ("net.xml", "PMML"), ("net.abc", "of no format that can be converted")])
def test_formats_without_a_converter_say_what_to_do(tmp_path, file, why):
    (tmp_path / file).write_bytes(b"nothing")
    assert why in convert(tmp_path, tmp_path / file, status=1)
