"""Reasons why a model is not loaded, and the log of its warmup, with the texts that Triton's own tests look for."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

import models
from harness import REFERENCE, Server, deviates

TENSORS = (
    'input [{ name: "I" data_type: TYPE_FP32 dims: [ 4 ] }] '
    'output [{ name: "O" data_type: TYPE_FP32 dims: [ 4 ] }]\n'
)
STEP = (
    'step [{ model_name: "%s" model_version: %d input_map { key: "INPUT0" value: "I" } '
    'output_map { key: "OUTPUT0" value: "O" } }]'
)


def ensemble(step):
    return 'platform: "ensemble" max_batch_size: 4\n' + TENSORS + "ensemble_scheduling { " + step + " }\n"


def identity(io="FP32", dims="4"):
    t = f"data_type: TYPE_{io} dims: [ {dims} ]"
    return f'backend: "identity" max_batch_size: 4\ninput [{{ name: "INPUT0" {t} }}] output [{{ name: "OUTPUT0" {t} }}]\n'


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A server whose models the tests write and load."""
    work = tmp_path_factory.mktemp("verdicts")
    (work / "models").mkdir()
    with Server(work / "models", work, "--model-control-mode=explicit") as s:
        s.folder = work / "models"
        yield s


def refused(server, name, config, version=True):
    models.write(server.folder / name / "config.pbtxt", config)
    if version:
        (server.folder / name / "1").mkdir(exist_ok=True)
    answer = server.post(f"/v2/repository/models/{name}/load", {})
    assert answer.status == 400, answer.body
    return answer.error


def test_DV101_the_first_wrong_input_is_named(tmp_path):
    """Both inputs have two strings, and a shape for three."""
    io = models.tensors("input", [("INPUT0", "STRING", [-1]), ("INPUT1", "STRING", [-1])])
    models.write(tmp_path / "models/m/config.pbtxt", 'backend: "python"\n' + io +
                 models.tensors("output", [("OUTPUT0", "STRING", [-1])]))
    models.write(tmp_path / "models/m/1/model.py",
                 models.PYTHON_HEAD + "    def execute(self, requests):\n        pass\n")
    values = np.array([b"a", b"b"], object)
    with Server(tmp_path / "models", tmp_path) as s, grpcclient.InferenceServerClient(s.grpc) as c:
        for names in (["INPUT0", "INPUT1"], ["INPUT1", "INPUT0"]):
            inputs = [grpcclient.InferInput(name, [2], "BYTES") for name in names]
            for tensor in inputs:
                tensor.set_data_from_numpy(values)
                tensor.set_shape([3])
            with pytest.raises(InferenceServerException) as refusal:
                c.infer("m", inputs)
            named = deviates(triton=names[1], ours=names[0])
            assert f"expected 3 string elements for inference input '{named}'" in str(refusal.value)


@pytest.mark.skipif(REFERENCE, reason="Triton's reasons are in its log")
def test_DV84_faults_of_a_configuration_are_told_also_without_a_version(empty):
    answer = refused(empty, "no_step", ensemble(""), version=False)
    assert "the ensemble has no step" in answer and "at least one version" not in answer
    assert "at least one version" in refused(empty, "no_version", identity(), version=False)


@pytest.mark.skipif(REFERENCE, reason="Triton's reasons are in its log")
@pytest.mark.parametrize("name, config, text", [
    ("version", ensemble(STEP % ("plain", 2)),
     "ensemble 'version' depends on 'plain' whose required version 2 is not loaded"),
    ("type", ensemble(STEP % ("ints", -1)),
     "ensemble tensor I: inconsistent data type: TYPE_FP32 is inferred from model type while TYPE_INT32 is inferred "
     "from model ints"),
    ("shape", ensemble(STEP % ("cubes", -1)),
     "ensemble tensor I: inconsistent shape: [-1,4] is inferred from model shape while [-1,4,4,4] is inferred from "
     "model cubes"),
])
def test_DV84_reasons_of_ensembles(empty, name, config, text):
    for step, model in (("plain", identity()), ("ints", identity("INT32")), ("cubes", identity(dims="4,4,4"))):
        models.write(empty.folder / step / "config.pbtxt", model)
        (empty.folder / step / "1").mkdir(exist_ok=True)
    assert text in refused(empty, name, config)


@pytest.mark.skipif(REFERENCE, reason="needs the identity backend")
def test_an_ensemble_that_batches_may_contain_a_model_that_does_not(empty):
    """The dims of that model include the batch dimension."""
    for name, config in (
        ("rows", identity(dims="-1,4").replace("max_batch_size: 4", "max_batch_size: 0")),
        ("both", ensemble(STEP % ("rows", -1))),
    ):
        models.write(empty.folder / name / "config.pbtxt", config)
        (empty.folder / name / "1").mkdir()
    answer = empty.post("/v2/repository/models/both/load", {})
    assert answer.status == 200, answer.body
    body = {"inputs": [{"name": "I", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}]}
    out = empty.post("/v2/models/both/infer", body).json["outputs"][0]
    assert (out["shape"], out["data"]) == ([3, 4], list(range(12)))


WARMUP = """
model_warmup [{ name: "zeros" batch_size: 1 count: 2
  inputs { key: "INPUT0" value: { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } }]
"""


@pytest.mark.skipif(REFERENCE, reason="Triton's reasons are in its log")
def test_a_warmup_shows_in_the_verbose_log_and_its_failure_in_the_reason(tmp_path):
    repo = tmp_path / "models"
    models.write(repo / "warm/config.pbtxt", identity() + WARMUP)
    (repo / "warm/1").mkdir()
    models.write(repo / "cold/config.pbtxt", identity().replace("identity", "python") + WARMUP)
    models.write(repo / "cold/1/model.py", models.PYTHON_HEAD + "    def execute(self, requests):\n"
                 '        return [pb.InferenceResponse([], pb.TritonError("too cold")) for _ in requests]\n')
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--log-verbose=1") as s:
        assert s.post("/v2/repository/models/warm/load", {}).status == 200
        answer = s.post("/v2/repository/models/cold/load", {})
        assert answer.status != 200 and "failed to run warmup sample 'zeros': too cold;" in answer.error
        log = s.log()
    for i in (1, 2):
        assert f"model 'warm' instance warm_0 is running warmup sample 'zeros' for iteration {i}" in log
