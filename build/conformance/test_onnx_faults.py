"""ONNX models whose inputs make an operator of ONNX Runtime trap, crash or take all memory. The server must survive."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's ONNX models")

TYPES = {"INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64}


def write(repo, name, nodes, inputs, outputs, opset=21, config=""):
    """Writes a model. inputs and outputs are (name, type, shape)."""
    values = [[helper.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "1/model.onnx").write_bytes(model.SerializeToString())
    (repo / name / "config.pbtxt").write_text('backend: "onnxruntime"\n' + config)


def tensor(name, datatype, values, shape=None):
    return {"name": name, "datatype": datatype, "shape": shape or [1, len(values)], "data": values}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("onnx_faults")
    repo = work / "models"
    for operator in "Div", "Mod":
        for datatype, code in TYPES.items():
            write(repo, f"{operator}_{datatype}", [helper.make_node(operator, ["a", "b"], ["y"])],
                  [("a", code, ["n", 33]), ("b", code, ["n", 33])], [("y", code, ["n", 33])])
    with Server(repo, work) as s:
        yield s


def alive(server):
    assert server.process.poll() is None, f"the server exited with {server.process.returncode}"


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_a_division_that_has_no_result_does_not_end_the_server(server, operator, datatype):
    """The smallest number by -1 gives what arm64 gives. A division by 0 gives an error, or 0."""
    smallest = int(np.iinfo(datatype.lower()).min)
    path = f"/v2/models/{operator}_{datatype}/infer"
    for of, expected in (list(range(7, 40)), None), ([smallest] * 33, smallest if operator == "Div" else 0):
        answer = server.post(path, {"inputs": [tensor("a", datatype, of), tensor("b", datatype, [-1] * 33)]})
        alive(server)
        assert answer.status == 200, answer.body
        wanted = [expected] * 33 if expected is not None else [-v if operator == "Div" else 0 for v in of]
        assert answer.json["outputs"][0]["data"] == wanted
    for of in 5, smallest, 0:
        answer = server.post(path, {"inputs": [tensor("a", datatype, [of] * 33), tensor("b", datatype, [0] * 33)]})
        alive(server)
        assert answer.status in (200, 400, 500), answer.body
        assert answer.status != 200 or answer.json["outputs"][0]["data"] == [0] * 33
