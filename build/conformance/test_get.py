"""Models that nereid get brings are served, and answer as plain ONNX Runtime does."""

import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import BINARY, REFERENCE, Server, tensor_input
from test_onnx_faults import write

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this program's command")

PACKAGES = pathlib.Path(__file__).parent / "packages"
TYPES = {"tensor(float)": "FP32", "tensor(int32)": "INT32", "tensor(int64)": "INT64", "tensor(bool)": "BOOL",
         "tensor(float16)": "FP16"}


def get(repo, *argv, code=0, env=None):
    """Runs nereid get and returns what it printed. A code of None allows every exit status."""
    repo.mkdir(exist_ok=True)
    done = subprocess.run([BINARY, "get", "-r", str(repo), "--python", sys.executable, *argv], capture_output=True,
                          text=True, timeout=300, env={**os.environ, **(env or {})})
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Makes a package with two models, and returns the environment that lets pip find only it."""
    work = tmp_path_factory.mktemp("index")
    for name, op in ("minus", "Neg"), ("root", "Sqrt"):
        write(work / "models", name, [helper.make_node(op, ["x"], ["y"])], [("x", TensorProto.FLOAT, [3])],
              [("y", TensorProto.FLOAT, [3])])
    info = "carrier-1.0.dist-info"
    with zipfile.ZipFile(work / "carrier-1.0-py3-none-any.whl", "w") as z:
        z.write(work / "models/minus/1/model.onnx", "carrier/data/minus.onnx")
        z.write(work / "models/root/1/model.onnx", "carrier/model.onnx")
        z.writestr("carrier/__init__.py", "raise SystemExit('the code of the package ran')\n")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\nRequires-Dist: nosuch\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(work)}


@contextlib.contextmanager
def files(folder):
    """Serves the files of a folder; the value is its URL."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_models_of_a_package_and_of_a_url_are_served(index, tmp_path):
    repo = tmp_path / "models"
    with files(index["PIP_FIND_LINKS"]) as url:
        text = get(repo, f"{url}/models/root/1/model.onnx", "--name=from_url")
    assert "from_url is in" in text
    printed = [json.loads(line) for line in get(repo, "pypi:carrier", "--json", env=index).splitlines()]
    assert [(p["model"], p["file"]) for p in printed] == [("minus", "carrier/data/minus.onnx"),
                                                          ("carrier", "carrier/model.onnx")]
    assert json.loads((repo / "minus/provenance.json").read_text()) == printed[0]
    get(repo, "pypi:carrier==1.0/minus.onnx", "--name=chosen", env=index)
    assert sorted(os.listdir(repo)) == ["carrier", "chosen", "from_url", "minus"]
    with Server(repo, tmp_path) as s:
        for model, want in {"minus": [-1, -4, -9], "chosen": [-1, -4, -9], "carrier": [1, 2, 3],
                            "from_url": [1, 2, 3]}.items():
            answer = s.post(f"/v2/models/{model}/infer", {"inputs": [tensor_input("x", "FP32", [3], [1, 4, 9])]})
            assert answer.json["outputs"][0]["data"] == want, answer.body


def test_packages_that_are_refused_leave_nothing(index, tmp_path):
    for argv, text in {
        ("pypi:nosuch",): "No matching distribution found for nosuch",
        ("pypi:--index-url=x",): "is no package",
        ("pypi:carrier/minus.onnx", "--sha256=00"): "not 00 of --sha256",
    }.items():
        assert text in get(tmp_path / "models", *argv, code=1, env=index), argv
    assert os.listdir(tmp_path / "models") == []


def test_packages_that_other_programs_wrote_are_served(tmp_path):
    """The handler of TorchServe, and BentoML's and MLflow's manifests, stay outside."""
    repo = tmp_path / "models"
    for package in "torchserve.mar", "bentoml.bentomodel", "mlflow_onnx.zip", "navigator.nav":
        text = get(repo, str(PACKAGES / package), f"--name={package.partition('.')[0]}")
        assert ("the handler handler.py is not taken" in text) == (package == "torchserve.mar"), text
    for model in repo.iterdir():
        assert sorted(f.name for f in model.rglob("*") if f.is_file()) == ["model.onnx", "provenance.json"], model
    with Server(repo, tmp_path) as s:
        for model in "torchserve", "bentoml", "mlflow_onnx", "navigator":
            answer = s.post(f"/v2/models/{model}/infer", {"inputs": [tensor_input("x", "FP32", [1, 3], [1, -2, 3])]})
            assert answer.status == 200 and answer.json["outputs"][0]["data"] == [-1, 2, -3], (model, answer.body)


def agree(server, name, path):
    """Compares the answer to made inputs with plain ONNX Runtime's."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shapes = {"input": [1, 576] if "sequence" in name else [1, 512], "bytes": [1, 2048], "state": [2, 1, 128],
              "x": [1, 3, 64, 96] if "_det_" in name else [1, 3, 48, 192]}  # of the OCR
    given, sent = {}, []
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in i.shape]
        if shape != i.shape:
            shape = shapes.get(i.name, shape)
        made = np.linspace(0, 1, int(np.prod(shape))).reshape(shape)
        if i.name == "sr":
            made = np.array(16000)
        elif i.name == "bytes":
            made = np.arange(2048).reshape(shape) % 257
        given[i.name] = made.astype({"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}[TYPES[i.type]])
        sent.append(tensor_input(i.name, TYPES[i.type], list(given[i.name].shape), given[i.name].ravel().tolist()))
    answer = server.post(f"/v2/models/{name}/infer", {"inputs": sent})
    assert answer.status == 200, (name, answer.body)
    got = {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in answer.json["outputs"]}
    for o, want in zip(session.get_outputs(), session.run(None, given)):
        assert np.allclose(got[o.name].ravel(), want.ravel(), rtol=1e-4, atol=1e-5), (name, o.name)


def test_models_of_real_packages_answer_as_onnx_runtime(tmp_path):
    """Runs where pip reaches its index. A graph of silero-vad says less about shapes than the optimized session."""
    repo = tmp_path / "models"
    for package in "magika", "silero-vad", "rapidocr-onnxruntime":
        text = get(repo, f"pypi:{package}", code=None, env={"PIP_RETRIES": "1"})
        if "-m pip download" in text:
            pytest.skip(f"pip does not reach its index: {text}")
    gallery = json.loads(get(repo, "--gallery", "--json"))
    examples = [m for m in gallery if m["name"] in ("magika", "silero_vad", "ch_PP-OCRv4_det_infer")]
    for m in examples:
        get(repo, m["source"], f"--name=gallery_{m['name']}")
    names = sorted(os.listdir(repo))
    assert {"magika", "silero_vad_16k_sequence", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer",
            "ch_ppocr_mobile_v2.0_cls_infer"} <= set(names)
    with Server(repo, tmp_path) as s:
        for name in names:
            assert s.state(name) == "READY", s.index()
            agree(s, name, repo / name / "1/model.onnx")
        for m in examples:
            request = json.loads((repo / f"gallery_{m['name']}/requests/example.json").read_bytes())
            answer = s.post(f"/v2/models/gallery_{m['name']}/infer", {"inputs": request["inputs"]})
            assert answer.status == 200 and len(request["inputs"]) == len(m["example"]["inputs"]), (m["name"], answer.body)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Makes a package with a model that keeps its weights in another file, and returns pip's environment."""
    work = tmp_path_factory.mktemp("big")
    path = work / "models/apart/1/model.onnx"
    (path.parent / "weights").mkdir(parents=True)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy")
    weights = numpy_helper.from_array(np.array([10, 20, 30], np.float32), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="weights/w.bin", size_threshold=0)
    info = "apart-1.0.dist-info"
    with zipfile.ZipFile(work / "apart-1.0-py3-none-any.whl", "w") as z:
        z.write(path, "apart/apart.onnx")
        z.write(path.parent / "weights/w.bin", "apart/weights/w.bin")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: apart\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(work)}


def test_weights_in_another_file_come_with_the_model(big, tmp_path):
    repo = tmp_path / "models"
    get(repo, "pypi:apart", env=big)
    assert os.path.exists(repo / "apart/1/weights/w.bin")
    with files(big["PIP_FIND_LINKS"] + "/models/apart/1") as url:
        get(repo, f"{url}/model.onnx", "--name=from_url")
        os.remove(big["PIP_FIND_LINKS"] + "/models/apart/1/weights/w.bin")
        text = get(repo, f"{url}/model.onnx", "--name=incomplete", code=1)
    assert "keeps weights in weights/w.bin" in text and "404" in text
    assert sorted(os.listdir(repo)) == ["apart", "from_url"]
    with Server(repo, tmp_path) as s:
        for model in "apart", "from_url":
            answer = s.post(f"/v2/models/{model}/infer", {"inputs": [tensor_input("x", "FP32", [3], [1, 2, 3])]})
            assert answer.json["outputs"][0]["data"] == [11, 22, 33], answer.body
