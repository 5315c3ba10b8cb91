"""Limits of the processes of ONNX models: executions that take too long, and those whose clients have left."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server, until
from test_isolation import workers
from test_onnx_faults import leave, step_up, tensor, write

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's ONNX models")


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def step(n):
    return {"inputs": [tensor("step", "FP32", [n], [1])]}


def boxes(repo, name):
    """Writes a model whose only operator compares n boxes with each other. ONNX Runtime cannot stop it meanwhile."""
    node = helper.make_node
    nodes = [node("Range", ["zero", "n", "one"], ["i"]), node("Add", ["i", "half"], ["j"]),
             node("Unsqueeze", ["i", "last"], ["ic"]), node("Unsqueeze", ["j", "last"], ["jc"]),
             node("Concat", ["ic", "ic", "jc", "jc"], ["flat"], axis=1), node("Unsqueeze", ["flat", "first"], ["box"]),
             node("Unsqueeze", ["i", "both"], ["score"]),
             node("NonMaxSuppression", ["box", "score", "most"], ["found"]),
             node("Shape", ["found"], ["shape"]), node("Gather", ["shape", "first"], ["y"])]
    array = lambda *v, t=np.int64: np.array(v, t)
    weights = {"zero": np.float32(0).reshape(()), "one": np.float32(1).reshape(()), "half": array(0.5, t=np.float32),
               "last": array(1), "first": array(0), "both": array(0, 1), "most": array(1 << 40)}
    write(repo, name, nodes, [("n", TensorProto.FLOAT, [])], [("y", TensorProto.INT64, [1])], weights=weights,
          config="instance_group { count: 1 kind: KIND_CPU }\n")


def test_D23_an_execution_of_an_ONNX_process_ends_at_its_limit(tmp_path):
    """The client waits. The limit is a parameter of the model, or a setting of the backend."""
    repo = tmp_path / "models"
    step_up(repo, "own", config=parameter("EXECUTE_TIMEOUT_SECONDS", 1))
    step_up(repo, "all")
    step_up(repo, "wrong", config=parameter("EXECUTE_TIMEOUT_SECONDS", "soon"))
    with Server(repo, tmp_path, "--backend-config=onnxruntime,execute-timeout-seconds=2", "--exit-on-error=false",
                wait="live") as s:
        until(lambda: s.state("own") == s.state("all") == "READY", 60, "the models do not start", s.log)
        for name, limit in ("own", "1s"), ("all", "2s"):
            pids = workers(s)
            answer = s.post(f"/v2/models/{name}/infer", step(0))
            assert answer.status >= 500 and limit in answer.error, answer.body
            until(lambda: s.post(f"/v2/models/{name}/infer", step(50)).status == 200, 60, "it does not recover", s.log)
            assert len(set(workers(s)) & set(pids)) == 1, "the other model's process goes on"
        state, reason = next((v for k, v in s.index().items() if k[0] == "wrong"))
        assert state == "UNAVAILABLE" and '"soon" is not a positive number' in reason, reason
    with pytest.raises(Exception, match="is not a positive number"):
        Server(repo, tmp_path, "--backend-config=onnxruntime,execute-timeout-seconds=soon").__enter__()


def test_D14_an_abandoned_execution_of_an_ONNX_process_is_stopped(tmp_path):
    """One that cannot be broken off. Its process is killed at the model's limit, and the model serves again."""
    repo = tmp_path / "models"
    boxes(repo, "boxes")
    count = lambda s, n: s.post("/v2/models/boxes/infer", {"inputs": [tensor("n", "FP32", [n], [1])]})
    with Server(repo, tmp_path, "--backend-config=onnxruntime,abandoned-timeout-seconds=1") as s:
        assert count(s, 9).json["outputs"][0]["data"] == [9]
        pids = workers(s)
        leave(s, "boxes", {"inputs": [tensor("n", "FP32", [1 << 22], [1])]})
        until(lambda: count(s, 9).status == 200, 60, "it goes on", s.log)
        assert not set(workers(s)) & set(pids)
        assert "requests that no client waits for" in s.log() and "after=1s" in s.log()
