"""Models of all frameworks that have packages, run by the real frameworks in one repository.

`make test-frameworks` installs the frameworks and runs these tests. NEREID_FRAMEWORKS is the data folder with them.
`make test` has only those that NEREID_FRAMEWORK_NAMES names, and runs the tests that need no others. It has PyTorch
from Debian, for CPUs: NEREID_FRAMEWORK_PYTHON names the Python of that, which models of frameworks that are not in the
folder use."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from harness import ROOT, Server

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

NAMES = os.environ.get("NEREID_FRAMEWORK_NAMES", "pytorch tensorflow openvino fil oneflow").split()


def installed(name):
    """The interpreter of a framework of `nereid install`, which may not be installed."""
    environments = pathlib.Path(os.environ["NEREID_FRAMEWORKS"]).resolve() / "runtime/python/environments"
    return environments / f"framework-{name}/bin/python"


def link_environment(work, name):
    """Lets a server with the folder work use an installed framework. Returns the framework's interpreter."""
    python, data = installed(name), work / "data/runtime/python/environments"
    data.mkdir(parents=True, exist_ok=True)
    for path in (work / "data", *data.parents[:2], data):
        path.chmod(0o700)
    os.symlink(python.parents[1], data / f"framework-{name}")
    return python


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("frameworks")
    repo = work / "models"
    maker = ROOT / "build" / "frameworks" / "make_models.py"
    options, machine = [], os.environ.get("NEREID_FRAMEWORK_PYTHON")
    for name in NAMES:
        python = installed(name)
        if python.exists() or machine is None:
            link_environment(work, name)
        else:
            options, python = [f"--backend-config=python,python={machine}"], machine
        subprocess.run([python, maker, name, repo], check=True)
    subprocess.run([sys.executable, maker, "onnx", repo], check=True)
    with Server(repo, work, "--exit-on-error=false", "--strict-readiness=false", "--model-control-mode=explicit",
                "--load-model=*", *options, wait="live", limit=400) as s:
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
        pytest.param("add_sub_pt", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"), id="D061 I020 TorchScript"),
        pytest.param("add_sub_named", ("a", "b"), ("sum__0", "difference__1"),
                     id="D061 TorchScript with named arguments"),
        pytest.param("add_sub_ordered", ("LEFT", "RIGHT"), ("SUM", "DIFFERENCE"), id="D061 tensors by their order"),
        pytest.param("add_sub_pt2", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"),
                     id="I020 an exported program"),
        pytest.param("add_sub_class", ("A", "B"), ("SUM", "DIFFERENCE"), id="D063 I020 a Python class"),
        pytest.param("add_sub_weights", ("A", "B"), ("SUM", "DIFFERENCE"), id="D063 a Python class with weights"),
        pytest.param("add_sub_savedmodel", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"),
                     id="D064 SavedModel, completed from the file"),
        pytest.param("add_sub_serving", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"),
                     id="D064 SavedModel in the version folder, as for TensorFlow Serving"),
        pytest.param("add_sub_graphdef", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"), id="D064 a frozen graph"),
        pytest.param("add_sub_openvino", ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"),
                     id="D065 OpenVINO, completed from the file"),
        pytest.param("add_sub_oneflow", ("INPUT_0", "INPUT_1"), ("OUTPUT_0", "OUTPUT_1"),
                     id="D070 A012 OneFlow, saved for another number of rows"),
        pytest.param("fixed_oneflow", ("INPUT_0", "INPUT_1"), ("OUTPUT_0", "OUTPUT_1"),
                     id="D070 OneFlow without a batch dimension"),
    ],
)
def test_add_sub(server, model, inputs, outputs):
    add_sub(server, model, inputs, outputs)


compiles = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None,
    reason="AOT Inductor needs a C++ compiler, and there is none (g++, or the one named by CXX)"
)


@compiles
@pytest.mark.parametrize("batch", [1, 2, 8, 1])
def test_D062_I020_package_of_aot_inductor(server, batch):
    """A package of AOT Inductor, by index. It also runs a batch of one, which its compiler excludes."""
    add_sub(server, "add_sub_aoti", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"), batch)


@pytest.mark.parametrize("model", [
    pytest.param("structured_pt2", id="an exported program with paths"),
    pytest.param("structured_aoti", id="D062 compiled by AOT Inductor", marks=compiles),
])  # fmt: skip
def test_nested_tensors_are_named_by_paths(server, model):
    """Tensors in dictionaries and lists are named by their paths. Wrong sizes are refused for every kind of package."""
    names = ("ARGS[0][a]", "ARGS[0][b]", "KWARGS[factor]")

    def ask(*rows):
        given = [np.random.default_rng(i).random((n, 4), dtype=np.float32) for i, n in enumerate(rows)]
        return given, request(server, model, {name: (value, "FP32") for name, value in zip(names, given)})

    for rows in (3, 1, 2, 70):
        (a, b, factor), got = ask(rows, rows, rows)
        np.testing.assert_array_equal(got.as_numpy("RESULT[sum]"), a + b)
        np.testing.assert_array_equal(got.as_numpy("RESULT[parts][0]"), a * factor)
        np.testing.assert_array_equal(got.as_numpy("RESULT[parts][1]"), b * factor)
    for rows in ((3, 1, 3), (1, 3, 1), (4, 4, 3)):
        with pytest.raises(InferenceServerException, match="RuntimeError|AssertionError"):
            ask(*rows)
    assert ask(2, 2, 2)  # the same process still works


def test_single_result(server):
    """A package that returns a single tensor, which is named RESULT."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(request(server, "single_pt2", {"ARGS[0]": (x, "FP32")}).as_numpy("RESULT"), x * 2)


def ask(server, model, name, value, kind, version=""):
    client = httpclient.InferenceServerClient(server.http)
    tensor = httpclient.InferInput(name, list(value.shape), kind)
    tensor.set_data_from_numpy(value)
    return client.infer(model, [tensor], model_version=version)


def test_three_versions(server):
    """resnet50_pt in three versions with different answers."""
    picture = np.random.default_rng(0).random((1, 3, 32, 32), dtype=np.float32)
    for version in ("1", "2", "3"):
        scores = ask(server, "resnet50_pt", "INPUT__0", picture, "FP32", version).as_numpy("OUTPUT__0")
        assert scores.shape == (1, 10) and scores.argmax() == int(version)


def test_other_models_of_the_repository(server):
    picture = np.zeros((1, 28, 28), np.float32)
    picture[0, 7] = 1
    assert ask(server, "mnist_savedmodel", "image", picture, "FP32").as_numpy("brightest").tolist() == [[7]]
    picture = np.random.default_rng(1).random((1, 3, 8, 8), dtype=np.float32)
    result = ask(server, "densenet_onnx", "data_0", picture, "FP32").as_numpy("fc6_1")
    np.testing.assert_array_equal(result, picture.max(axis=(2, 3), keepdims=True))


def test_D070_oneflow_with_any_number_of_rows(server):
    """A graph is compiled for each number of rows, also when the batcher joins requests."""
    for rows in (1, 3, 8, 3):
        add_sub(server, "add_sub_oneflow", ("INPUT_0", "INPUT_1"), ("OUTPUT_0", "OUTPUT_1"), rows)


@pytest.mark.skipif("oneflow" not in NAMES, reason="OneFlow is not among the frameworks")
def test_D070_style_transfer_as_a_graph_of_oneflow(tmp_path):
    """The network of docs/examples/style, saved by OneFlow, answers as its ONNX file does in plain ONNX Runtime."""
    python = link_environment(tmp_path, "oneflow")
    example, scripts = ROOT / "docs/examples/style", ROOT / "build/scripts/style"
    file, model = example / "models/fast_neural_style/1/model.onnx", tmp_path / "models/fast_neural_style"
    (model / "1").mkdir(parents=True)
    config = (example / "models/fast_neural_style/config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(config.replace('"onnxruntime"', '"oneflow"'))
    subprocess.run([sys.executable, scripts / "weights.py", file, tmp_path / "w.npz"], check=True)
    subprocess.run([python, scripts / "oneflow_graph.py", tmp_path / "w.npz", model / "1/model"], check=True)
    pictures = np.random.default_rng(0).uniform(0, 255, (2, 3, 256, 256)).astype(np.float32)
    [wanted] = onnxruntime.InferenceSession(str(file)).run(None, {"INPUT_0": pictures})
    with Server(tmp_path / "models", tmp_path, limit=400) as s:
        for rows in (1, 2):
            got = ask(s, "fast_neural_style", "INPUT_0", pictures[:rows], "FP32").as_numpy("OUTPUT_0")
            np.testing.assert_allclose(got, wanted[:rows], atol=0.05)


@pytest.mark.skipif("tensorflow" not in NAMES, reason="TensorFlow is not among the frameworks")
def test_the_reading_machine_in_two_frameworks(tmp_path):
    """text_detection as a SavedModel answers as its ONNX file does, and the pipeline of docs/examples/ocr reads with
    it."""
    import test_ocr

    python, scripts = link_environment(tmp_path, "tensorflow"), ROOT / "build/scripts"
    shutil.copytree(test_ocr.EXAMPLE / "models", tmp_path / "models")
    model = tmp_path / "models/text_detection"
    file = model / "1/model.onnx"
    reference = onnxruntime.InferenceSession(file.read_bytes())
    subprocess.run([sys.executable, scripts / "style/weights.py", file, tmp_path / "w.npz"], check=True)
    file.unlink()
    subprocess.run([python, scripts / "ocr/tensorflow_detection.py", tmp_path / "w.npz", model / "1/model.savedmodel"],
                   check=True)
    config = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(config.replace('"onnxruntime"', '"tensorflow"'))
    with Server(tmp_path / "models", tmp_path, limit=400) as s:
        for shape in ((1, 96, 160, 3), (2, 64, 32, 3)):
            pictures = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
            wanted = reference.run(None, {"input_images:0": pictures})
            got = ask(s, "text_detection", "input_images:0", pictures, "FP32")
            for output, want in zip(reference.get_outputs(), wanted):
                np.testing.assert_allclose(got.as_numpy(output.name), want, rtol=1e-4, atol=1e-4, err_msg=output.name)
        for read in (test_ocr.example.two_calls, test_ocr.example.one_call):
            score = test_ocr.read_all(s, read)
            assert min(score.f1, score.accuracy) >= test_ocr.BAR, f"{read.__name__}: {score}"


@pytest.mark.parametrize("model, name, output",
                         [("upper_pt", "texts", "OUTPUT__0"), ("upper_savedmodel", "text", "shouted")])
def test_strings(server, model, name, output):
    value = np.array([b"ab", b"c"], dtype=object)
    if model == "upper_savedmodel":
        value = value.reshape(2, 1)  # completed: a batch of single strings
    assert ask(server, model, name, value, "BYTES").as_numpy(output).ravel().tolist() == [b"AB", b"C"]


def test_bfloat16(server):
    value = np.array([[1, 2, -3, 0.5]], ml_dtypes.bfloat16)
    result = ask(server, "twice_bf16", "INPUT__0", value, "BF16").as_numpy("OUTPUT__0")
    np.testing.assert_array_equal(result.astype(np.float32), value.astype(np.float32) * 2)


def test_requests_are_batched(server):
    """Each of several clients gets the rows of its own request."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(add_sub, server, "add_sub_pt", ("INPUT__0", "INPUT__1"), ("OUTPUT__0", "OUTPUT__1"),
                                 n % 3 + 1) for n in range(40)]:
            done.result()


def request(server, model, inputs, version="", module=httpclient, parameters=None):
    client = module.InferenceServerClient(server.http if module is httpclient else server.grpc)
    given = []
    for name, (value, kind) in inputs.items():
        tensor = module.InferInput(name, list(value.shape), kind)
        tensor.set_data_from_numpy(value)
        given.append(tensor)
    return client.infer(model, given, model_version=version, parameters=parameters)


VALUES = {
    "BOOL": np.array([[True, False, True], [False, False, True]]),
    "UINT8": np.array([[0, 1, 255], [7, 8, 9]], np.uint8),
    "UINT16": np.array([[0, 1, 65535], [7, 8, 9]], np.uint16),
    "UINT32": np.array([[0, 1, 2**32 - 1], [7, 8, 9]], np.uint32),
    "UINT64": np.array([[0, 1, 2**64 - 1], [7, 8, 9]], np.uint64),
    "INT8": np.array([[-128, 1, 127], [7, 8, 9]], np.int8),
    "INT16": np.array([[-32768, 1, 32767], [7, 8, 9]], np.int16),
    "INT32": np.array([[-(2**31), 1, 2**31 - 1], [7, 8, 9]], np.int32),
    "INT64": np.array([[-(2**63), 1, 2**63 - 1], [7, 8, 9]], np.int64),
    "FP16": np.array([[0.5, -1, 65504], [7, 8, 9]], np.float16),
    "FP32": np.array([[0.1, -1, 3e38], [7, 8, 9]], np.float32),
    "FP64": np.array([[0.1, -1, 1e308], [7, 8, 9]], np.float64),
    "BF16": np.array([[0.5, -1, 3e38], [7, 8, 9]], ml_dtypes.bfloat16),
    "STRING": np.array([[b"", b"a\x00\xff", b"x" * 5000], [b"b", b"c", b"d"]], object),
}


@pytest.mark.parametrize("module", [httpclient, grpcclient], ids=["HTTP", "gRPC"])
@pytest.mark.parametrize(
    "model, turned",
    [
        pytest.param("types_savedmodel", True, id="D064 every data type of a SavedModel, in a batch"),
        pytest.param("types_graphdef", False, id="D064 every data type of a graph"),
        pytest.param("types_openvino", False, id="D065 every data type, in a batch"),
    ],
)
def test_types(server, model, turned, module):
    kinds = [kind for kind in VALUES if kind != "STRING" or model != "types_openvino"]
    flat = model == "types_graphdef"
    values = {kind: VALUES[kind].ravel() if flat else VALUES[kind] for kind in kinds}
    if model == "types_openvino":  # its CPU plugin computes 64-bit types in 32 bits
        for kind in ("INT64", "UINT64", "UINT32", "FP64"):
            values[kind] = np.array([[0, 1, 2**20], [7, 8, 9.5]]).astype(values[kind].dtype)
    result = request(server, model, {"in_" + kind: (value, "BYTES" if kind == "STRING" else kind) for kind,
                                     value in values.items()}, module=module)
    for kind, value in values.items():
        got = result.as_numpy("out_" + kind)
        np.testing.assert_array_equal(got, value[:, ::-1] if turned else value, err_msg=kind)


@pytest.mark.parametrize("model, name, output, factor", [
    pytest.param("signature_default", "x", "y", 2, id="D064 the default signature"),
    pytest.param("signature_named", "x", "y", 3, id="D064 TF_SIGNATURE_DEF"),
    pytest.param("threads", "x", "y", 2, id="D064 thread counts, and two instances"),
    pytest.param("batch_reshaped", "x", "y", 2, id="D065 a fixed batch size becomes variable"),
    pytest.param("batch_padded", "x", "y", 2, id="D065 ENABLE_BATCH_PADDING"),
    pytest.param("tuned_openvino", "x", "y", 0, id="D065 the other parameters"),
])  # fmt: skip
def test_parameters(server, model, name, output, factor):
    for rows in (1, 3, 4):
        x = np.arange(rows * (3 if model.startswith("batch") else 4), dtype=np.float32).reshape(rows, -1)
        result = request(server, model, {name: (x, "FP32")}).as_numpy(output)
        np.testing.assert_array_equal(result, x * factor if factor else x * x)


@pytest.mark.parametrize("model, rows, want", [
    pytest.param("forest_regression", [[0, 1, 0], [0, 3, 0]], [[-1], [2]], id="a regression"),
    pytest.param("forest_classes", [[0, 1, 0], [0, 3, 0]], [[0], [0]], id="classes by a threshold"),
    pytest.param("forest_scores", [[0, 1, 0], [0, 3, 0]], [[0.26894143], [0.880797]], id="predict_proba"),
    pytest.param("forest_both", [[0, 1, 0], [0, 3, 0]], [[0.7310586, 0.26894143], [0.119203, 0.880797]],
                 id="predict_proba of both classes"),
    pytest.param("forest_lightgbm", [[1, 1], [4, 0]],
                 [[0.09003057, 0.24472848, 0.66524096], [0.66524096, 0.09003057, 0.24472848]],
                 id="LightGBM, completed from the file"),
    pytest.param("forest_xgboost", [[0, 7], [1, 7]], [[6], [11]], id="XGBoost's JSON, completed from the file"),
])  # fmt: skip
def test_D066_forests(server, model, rows, want):
    got = request(server, model, {"input__0": (np.array(rows, np.float32), "FP32")}).as_numpy("output__0")
    np.testing.assert_allclose(got, np.array(want, np.float32), rtol=1e-6)


def test_fixed_batch_size_is_enforced(server):
    """D065 SKIP_OV_DYNAMIC_BATCHSIZE: the model accepts its own batch size and rejects others with a clear error."""
    x = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(request(server, "batch_exact", {"x": (x, "FP32")}).as_numpy("y"), x * 2)
    with pytest.raises(InferenceServerException,
                       match="takes batches of 4 and got 2; set the parameter ENABLE_BATCH_PADDING to YES"):
        request(server, "batch_exact", {"x": (x[:2], "FP32")})


def test_other_shapes(server):
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    result = request(server, "any_rank", {"n": (np.array([3], np.int32), "INT32"), "x": (x, "FP32")})
    np.testing.assert_array_equal(result.as_numpy("y"), x * 3)
    assert result.as_numpy("n").tolist() == [4]
    picture = np.random.default_rng(2).random((1, 3, 4, 4), dtype=np.float32)
    result = request(server, "reshaped_layers", {"x": (picture, "FP32")}).as_numpy("y")
    np.testing.assert_array_equal(result, picture.max(axis=(2, 3), keepdims=True))
    picture = np.random.default_rng(3).random((2, 3, 8, 8), dtype=np.float32)
    result = request(server, "densenet_openvino", {"data_0": (picture, "FP32")}).as_numpy("fc6_1")
    np.testing.assert_array_equal(result, picture.max(axis=(2, 3), keepdims=True))
    x = np.array([1.5, 2.5], np.float32)
    np.testing.assert_array_equal(request(server, "initialized", {"x": (x, "FP32")}).as_numpy("y"), x + 10)


def test_openvino_strings(server):
    texts = np.array([b"one", b"", "zw\u00f6lf".encode()], object)
    got = request(server, "texts_openvino", {"text": (texts, "BYTES")}).as_numpy("same")
    assert got.ravel().tolist() == texts.tolist() * 2
    with pytest.raises(InferenceServerException,
                       match="a text has a zero byte, which OpenVINO's C interface does not take"):
        request(server, "texts_openvino", {"text": (np.array([b"a\x00b"], object), "BYTES")})


def test_large_tensors(server):
    """Some megabytes each way through shared memory. Concurrent requests are batched and split again."""
    a = np.random.default_rng(4).random((4, 512, 256), dtype=np.float32)
    b = np.random.default_rng(5).random((4, 256, 512), dtype=np.float32)

    def ask(n):
        got = request(server, "product", {"a": (a[:n], "FP32"), "b": (b[:n], "FP32")}).as_numpy("y")
        np.testing.assert_allclose(got, a[:n] @ b[:n], rtol=1e-3)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ask, n) for n in (1, 2, 1, 4, 1, 3)]:
            done.result()


def test_wrong_shapes_are_refused(server):
    """The server refuses shapes that the configuration forbids. Other errors come from the model and affect one
    request."""
    x = np.ones((2, 5), np.float32)
    for model, name in (("signature_default", "x"), ("add_sub_openvino", "INPUT0")):
        with pytest.raises(InferenceServerException, match="unexpected shape for input|expected .* inputs"):
            request(server, model, {name: (x, "FP32")})
    a, b = np.ones((1, 2, 3), np.float32), np.ones((1, 4, 2), np.float32)
    with pytest.raises(InferenceServerException,
                       match="TensorFlow: .*(In|in)compatible|TensorFlow: Matrix size") as info:
        request(server, "product", {"a": (a, "FP32"), "b": (b, "FP32")})
    assert info.value.status() == "400"
    with pytest.raises(InferenceServerException, match="data-type|datatype|data type"):
        request(server, "signature_default", {"x": (np.ones((1, 4), np.int32), "INT32")})
    np.testing.assert_array_equal(request(server, "signature_default", {"x": (x[:, :4], "FP32")}).as_numpy("y"),
                                  x[:, :4] * 2)


@pytest.mark.parametrize("model, error", [
    ("typed_pt", "configuration expects datatype TYPE_INT32 for output 'OUTPUT__0', model provides TYPE_FP32"),
    ("beyond_pt", "The output OUTPUT__2 in the model configuration refers to an output index which doesn't exist. "
                  "This model has 2 outputs"),
])
def test_outputs_that_the_configuration_describes_wrongly_D061(server, model, error):
    given = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": list(range(16))} for n in ("LEFT", "RIGHT")]
    answer = server.post(f"/v2/models/{model}/infer", {"inputs": given})
    assert answer.status == 500 and answer.error == error, answer.body


@pytest.mark.parametrize("model, reason", [
    pytest.param("broken_pt", "RuntimeError", id="a damaged TorchScript"),
    pytest.param("accelerated_pt", "the execution accelerator 'tensorrt' is not one of PyTorch's; take it out",
                 id="an accelerator of PyTorch"),
    pytest.param("torch_tensorrt", "was compiled by Torch-TensorRT, whose runtime is not installed",
                 id="Torch-TensorRT"),
    pytest.param("wrong_path", "output 'RESULT[difference]' is not in the package, which has RESULT[sum], "
                               "RESULT[parts][0], RESULT[parts][1]; or write", id="an unknown path"),
    pytest.param("hooked_package", "parameter 'MODEL_INIT_LIBRARY' is not known here", id="an unsupported parameter"),
    pytest.param("broken_savedmodel", "it is not a protocol buffer of a SavedModel", id="D064 a damaged SavedModel"),
    pytest.param("broken_graphdef", "Invalid GraphDef", id="D064 a damaged graph"),
    pytest.param("wrong_node", "unexpected inference output 'z' for model 'wrong_node': the graph has no such node",
                 id="D064 an unknown output"),
    pytest.param("signature_wrong", "the SavedModel has serving_default, thrice; name one in the parameter "
                                    "TF_SIGNATURE_DEF", id="D064 an unknown signature"),
    pytest.param("tag_wrong", "expected 'gpu' tag, the SavedModel has serve", id="D064 an unknown tag"),
    pytest.param("accelerated", "'tensorrt' (TF-TRT), which TensorFlow's packages no longer have",
                 id="TensorFlow-TensorRT"),
    pytest.param("broken_openvino", "Unable to read the model", id="D065 a damaged IR"),
    pytest.param("no_device", "TOASTER", id="D065 an unknown device"),
    pytest.param("broken_oneflow", "fail to parse file", id="D070 a damaged OneFlow graph"),
    pytest.param("unknown_oneflow", "'OUTPUT_2' is not in the graph, which has OUTPUT_0, OUTPUT_1",
                 id="D070 an unknown output of OneFlow"),
    pytest.param("shape_oneflow",
                 "'INPUT_0' of the configuration is TYPE_FP32 [8], and in the graph it is float32 [16] "
                                  "a row", id="D070 another shape than OneFlow's"),
    pytest.param("broken_forest", "model.txt is not a model of the type lightgbm", id="a damaged forest"),
    pytest.param("pair_forest", "the model has 1 values for a row: write TYPE_FP32 and dims: [ 1 ]",
                 id="a forest with two outputs a row, without predict_proba"),
    pytest.param("wrong_forest", "the model has 3 features: write TYPE_FP32 and dims: [ 3 ]",
                 id="a forest with another number of features"),
])  # fmt: skip
def test_invalid_models_are_refused(server, model, reason):
    index = {m["name"]: m for m in httpclient.InferenceServerClient(server.http).get_model_repository_index()}
    assert index[model]["state"] == "UNAVAILABLE"
    assert reason in index[model]["reason"], index[model]["reason"]


USES_PACKAGING = """import numpy as np
import packaging
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        version = np.array([packaging.__version__.encode()], np.object_)
        return [pb.InferenceResponse([pb.Tensor("VERSION", version)]) for _ in requests]
"""


def test_conflicting_requirements_get_separate_environments(tmp_path):
    """Models with conflicting requirements get separate environments from the package index, each with numpy.

    An environment is built once. The GUI shows its log and its lock file. If a package cannot be installed, the model's
    error and the log say so."""
    repo = tmp_path / "models"
    wanted = {"old": "23.2", "new": "24.2", "all": "25.0"}
    places = {"old": repo / "old", "new": repo / "new" / "1", "all": tmp_path, "never": repo / "never"}
    for name in places:
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text('backend: "python"\noutput [ { name: "VERSION" data_type: '
                                                  'TYPE_STRING dims: [ 1 ] } ]\n'
                                                  'input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]\n')
        (repo / name / "1" / "model.py").write_text(USES_PACKAGING)
        (places[name] / "requirements.txt").write_text("packaging==%s\n" % wanted.get(name, "0.0.99"))
    options = ["--exit-on-error=false", "--strict-readiness=false", "--model-control-mode=explicit", "--load-model=*",
               "--python-requirements=%s" % os.path.relpath(tmp_path / "requirements.txt")]

    def answers(server):
        for name, version in wanted.items():
            got = request(server, name, {"X": (np.zeros(1, np.float32), "FP32")}).as_numpy("VERSION")
            assert got.tolist() == [version.encode()], name

    with Server(repo, tmp_path, *options, wait="live", limit=400) as server:
        answers(server)
        index = {m["name"]: m for m in httpclient.InferenceServerClient(server.http).get_model_repository_index()}
        assert "packaging==0.0.99" in index["never"]["reason"] and ".log" in index["never"]["reason"], index["never"]
        for name, version in wanted.items():
            runtime = json.load(urllib.request.urlopen("%s/api/models/%s/runtime" % (server.ui, name)))
            environment = runtime["environment"]
            assert environment["state"] == "ready" and "packaging==" + version in environment["lock"], environment
            assert any(line.startswith("numpy==") for line in environment["lock"]), environment
            assert any("packaging==" + version in line for line in environment["log"]), environment
        failed = json.load(urllib.request.urlopen("%s/api/models/never/runtime" % server.ui))["environment"]
        assert failed["state"] == "failed" and any("packaging==0.0.99" in line for line in failed["log"]), failed
    (repo / "never" / "requirements.txt").unlink()  # the restart would try it again
    server.log_path.rename(tmp_path / "first.log")
    with Server(repo, tmp_path, *options, wait="live", limit=400) as server:
        answers(server)
        assert "building the environment of a model" not in server.log()


def workers(server, model):
    """The pids of the running worker processes of this model or framework."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if parent == server.process.pid and line[1:3] == [b"worker", model.encode()]:
            found.append(int(path.name))
    return found


@pytest.mark.parametrize("framework, model, other", [
    pytest.param("tensorflow", "signature_default", "batch_padded", id="D064 TensorFlow"),
    pytest.param("openvino", "batch_padded", "signature_default", id="D065 OpenVINO"),
])  # fmt: skip
def test_killed_processes_are_restarted(server, framework, model, other):
    """Killed processes are restarted. Models of other frameworks are not affected."""
    width = {"signature_default": 4, "batch_padded": 3}
    before = workers(server, framework)
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    x = np.ones((1, width[other]), np.float32)
    np.testing.assert_array_equal(request(server, other, {"x": (x, "FP32")}).as_numpy("y"), x * 2)
    x = np.ones((1, width[model]), np.float32)
    until = time.monotonic() + 60
    while True:
        try:
            got = request(server, model, {"x": (x, "FP32")}).as_numpy("y")
            break
        except InferenceServerException as problem:
            assert "ended" in str(problem) or "started again" in str(problem), problem
            assert time.monotonic() < until, problem
            time.sleep(0.1)
    np.testing.assert_array_equal(got, x * 2)
    assert not set(before) & set(workers(server, framework))


@pytest.mark.timeout(7200)  # of many cycles
@pytest.mark.parametrize("model", [
    pytest.param("signature_default", id="D064 TensorFlow"), pytest.param("batch_padded", id="D065 OpenVINO"),
])  # fmt: skip
def test_loads_leak_nothing(server, model):
    """Loads and unloads the model NEREID_CYCLES times. No process, descriptor, shared memory or server memory is
    leaked."""
    client = httpclient.InferenceServerClient(server.http, network_timeout=120)
    proc = pathlib.Path("/proc") / str(server.process.pid)

    def cycle(times):
        for _ in range(times):
            client.unload_model(model)
            until = time.monotonic() + 30
            while client.is_model_ready(model):
                assert time.monotonic() < until
            client.load_model(model)

    def held():
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return {
            "descriptors": len(os.listdir(proc / "fd")),
            "RSS, KiB": int(status["VmRSS"].split()[0]),
            "of it shared, KiB": int(status["RssShmem"].split()[0]),
            "processes": len(workers(server, "tensorflow")) + len(workers(server, "openvino")),
            "objects in /dev/shm": len([name for name in os.listdir("/dev/shm") if "nereid" in name]),
        }

    cycle(3)
    before = held()
    cycles = int(os.environ.get("NEREID_CYCLES", "10"))
    cycle(cycles)
    after = held()
    print("%s, %d loads: %s; before: %s" % (model, cycles, after, before))
    assert after["processes"] == before["processes"] and after["descriptors"] <= before["descriptors"] + 4
    assert after["objects in /dev/shm"] <= before["objects in /dev/shm"]
    assert after["of it shared, KiB"] <= before["of it shared, KiB"] + 1024
    assert after["RSS, KiB"] <= before["RSS, KiB"] + (32 << 10)
