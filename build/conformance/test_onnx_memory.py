"""The memory of ONNX models: what one request needed is there for the next one, of any model, and goes back."""

import numpy as np
import pytest
import tritonclient.grpc as tg
from tritonclient.utils import InferenceServerException, np_to_triton_dtype
from onnx import helper

import models
from harness import BINARY, REFERENCE, Server, until
from limits import MIB, memory_group

pytestmark = pytest.mark.skipif(REFERENCE, reason="the arenas of the reference keep the memory")

ELEMENTS = 15 * MIB  # 60 MiB of FP32
COUNT = 10


def resident(pid):
    """The bytes that a process has in memory."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Rss:"))


def write_chain(repo, name):
    """A model of three operators on a tensor of any length."""
    steps = [helper.make_node("Add", ["A", "A"], ["t"]), helper.make_node("Exp", ["t"], ["u"]),
             helper.make_node("Neg", ["u"], ["C"])]
    models.add_model(repo, name, "", [("A", "FP32", [-1])], [("C", "FP32", [-1])], steps, "", batched=False)


def infer(client, model, x):
    tensor = tg.InferInput("A", list(x.shape), np_to_triton_dtype(x.dtype))
    tensor.set_data_from_numpy(x)
    return client.infer(model, [tensor]).as_numpy("C")


def test_DV112_large_requests_of_many_models_fit_into_a_small_server(tmp_path):
    for i in range(COUNT):
        write_chain(tmp_path / "models", f"m{i}")
    x = np.full(ELEMENTS, 0.5, np.float32)
    with memory_group(1024 * MIB) as group:
        script = f"{f'echo $$ > {group.procs} && ' if group else ''}exec {BINARY} serve \"$@\""
        with Server(tmp_path / "models", tmp_path, command=["bash", "-c", script, "serve"]) as s:
            pid, client = s.process.pid, tg.InferenceServerClient(s.grpc)
            before = resident(pid)
            for i in range(COUNT):
                y = infer(client, f"m{i}", x)
                assert y.shape == x.shape and np.allclose(y[::MIB], -np.e)
                assert resident(pid) < before + 600 * MIB  # ten arenas would need twice as much
            until(lambda: resident(pid) < before + 60 * MIB, 120, "memory goes back")


def test_an_output_that_does_not_fit_is_an_error(tmp_path):
    config = 'parameters { key: "isolation" value { string_value: "none" } }\n'
    models.add_model(tmp_path / "models", "make", config, [("A", "INT64", [-1])], [("C", "FP32", [-1])],
                     [helper.make_node("ConstantOfShape", ["A"], ["C"])], "", batched=False)
    with Server(tmp_path / "models", tmp_path) as s:
        client = tg.InferenceServerClient(s.grpc)
        with pytest.raises(InferenceServerException, match="onnx runtime error"):
            infer(client, "make", np.array([1 << 45], np.int64))
        assert infer(client, "make", np.array([3], np.int64)).tolist() == [0, 0, 0]
